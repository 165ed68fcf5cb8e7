//! Diagrams as SVG, without a library: bars and courses.
//!
//! Each has its own white ground, so it is readable on pages of any colour.

use std::fmt::Write as _;

use super::table::{number, plain};

const WIDTH: f64 = 760.0;
const FONT: &str = "font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#24292f\"";
/// Told apart in grey and by those who do not see red, too.
const COLORS: [&str; 3] = ["#0b6bcb", "#d9730d", "#8a939b"];
const GRID: &str = "#d8dee4";
const TOP: f64 = 64.0;
const EDGE: f64 = 16.0;

/// A line of bars: what it is, and a value for each name of the legend.
pub struct Group {
    /// What is written before the bars.
    pub title: &'static str,
    /// In the order of the legend; what was not measured has no bar.
    pub values: Vec<Option<f64>>,
}

/// Bars on a logarithmic scale, since what is compared differs by powers of ten. The legend
/// has those that have bars.
pub fn bars(title: &str, legend: &[&str], groups: &[Group]) -> String {
    const LEFT: f64 = 230.0;
    const RIGHT: f64 = 80.0;
    const BAR: f64 = 14.0;
    const GAP: f64 = 14.0;
    let all = || groups.iter().flat_map(|group| group.values.iter().flatten().copied());
    let low = all().fold(f64::INFINITY, f64::min).log10().floor();
    let high = all().fold(f64::NEG_INFINITY, f64::max).log10().ceil().max(low + 1.0);
    let at = |value: f64| LEFT + (value.log10() - low) / (high - low) * (WIDTH - LEFT - RIGHT);
    let lines = |group: &Group| count(group.values.iter().flatten().count());
    let height: f64 = groups.iter().map(|group| lines(group) * BAR + GAP).sum();
    let has_bars =
        |index| groups.iter().any(|group| matches!(group.values.get(index), Some(Some(_))));
    let named = legend.iter().copied().zip(COLORS).enumerate();
    let named: Vec<_> = named.filter(|(index, _)| has_bars(*index)).map(|(_, name)| name).collect();
    let mut picture = Picture::new(title, TOP + height + 2.0 * EDGE, &named);
    let mut power = low;
    while power <= high {
        let (x, bottom) = (at(10.0_f64.powf(power)), TOP + height);
        picture.line((x, TOP - 6.0), (x, bottom), GRID);
        picture.text((x, bottom + EDGE), "middle", &short(10.0_f64.powf(power)));
        power += 1.0;
    }
    let mut y = TOP;
    for group in groups {
        let middle = y + lines(group) * BAR / 2.0 + 4.0;
        picture.text((LEFT - 8.0, middle), "end", group.title);
        for (value, color) in group.values.iter().zip(COLORS) {
            let Some(value) = *value else { continue };
            let x = at(value).max(LEFT + 1.0);
            picture.rectangle((LEFT, y), (x - LEFT, BAR - 2.0), color);
            picture.text((x + 5.0, y + 11.0), "start", &number(value));
            y += BAR;
        }
        y += GAP;
    }
    picture.end()
}

/// Courses over time or size, each with the name of the legend; both axes begin at 0.
pub fn courses(
    title: &str,
    axes: (&str, &str),
    legend: &[&str],
    courses: &[&[(f64, f64)]],
) -> String {
    const LEFT: f64 = 64.0;
    const HEIGHT: f64 = 260.0;
    const STEPS: u32 = 5;
    let right = WIDTH - 2.0 * EDGE;
    let bottom = TOP + HEIGHT;
    let most = |of: fn(&(f64, f64)) -> f64| {
        round_up(courses.iter().copied().flatten().map(of).fold(0.0, f64::max))
    };
    let (wide, tall) = (most(|point| point.0), most(|point| point.1));
    let at = |(x, y): (f64, f64)| (LEFT + x / wide * (right - LEFT), bottom - y / tall * HEIGHT);
    let named: Vec<_> = legend.iter().copied().zip(COLORS).collect();
    let mut picture = Picture::new(title, bottom + 3.0 * EDGE, &named);
    for step in 0..=STEPS {
        let share = f64::from(step) / f64::from(STEPS);
        let (x, y) = at((share * wide, share * tall));
        picture.line((LEFT, y), (right, y), GRID);
        picture.text((LEFT - 6.0, y + 4.0), "end", &plain(share * tall));
        picture.text((x, bottom + EDGE + 2.0), "middle", &plain(share * wide));
    }
    picture.text((LEFT, TOP - 10.0), "start", axes.1);
    picture.text((right, bottom + 2.0 * EDGE + 4.0), "end", axes.0);
    for (course, color) in courses.iter().zip(COLORS) {
        let points: Vec<_> = course.iter().map(|point| at(*point)).collect();
        picture.course(&points, color);
    }
    picture.end()
}

/// Few digits, since there is little room at an axis.
fn short(value: f64) -> String {
    match value {
        large if large >= 1e6 => format!("{} M", plain(large / 1e6)),
        middle if middle >= 1e3 => format!("{} k", plain(middle / 1e3)),
        _ => plain(value),
    }
}

/// The next number that is 1, 2, 2.5 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10.0_f64.powf(value.max(f64::MIN_POSITIVE).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    steps.iter().map(|step| step * power).find(|step| *step >= value).unwrap_or(value)
}

fn count(number: usize) -> f64 {
    super::stats::float(number)
}

/// What is drawn so far.
struct Picture(String);

impl Picture {
    /// With a legend of names and their colors.
    fn new(title: &str, height: f64, legend: &[(&str, &str)]) -> Self {
        let mut picture = Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
             width=\"{WIDTH}\" height=\"{height:.0}\" role=\"img\" {FONT}>\n"
        ));
        picture.put(&format!("<title>{}</title>", escaped(title)));
        picture.rectangle((0.0, 0.0), (WIDTH, height), "#ffffff");
        let text = escaped(title);
        picture.put(&format!(
            "<text x=\"{EDGE}\" y=\"24\" font-size=\"15\" font-weight=\"600\">{text}</text>"
        ));
        let mut x = WIDTH - EDGE;
        for (name, color) in legend.iter().rev() {
            picture.text((x, 24.0), "end", name);
            x -= 7.5 * count(name.chars().count()) + 18.0;
            picture.rectangle((x, 14.0), (11.0, 11.0), color);
            x -= EDGE;
        }
        picture
    }

    fn put(&mut self, element: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{element}");
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: &str, text: &str) {
        let text = escaped(text);
        self.put(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    fn line(&mut self, (x, y): (f64, f64), (to_x, to_y): (f64, f64), color: &str) {
        self.put(&format!(
            "<path d=\"M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}\" stroke=\"{color}\" fill=\"none\"/>"
        ));
    }

    fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), color: &str) {
        self.put(&format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{color}\"/>"
        ));
    }

    fn course(&mut self, points: &[(f64, f64)], color: &str) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let points = points.join(" ");
        self.put(&format!(
            "<polyline points=\"{points}\" stroke=\"{color}\" stroke-width=\"2\" fill=\"none\"/>"
        ));
    }

    fn end(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
