//! Values as text for people.
//!
//! Owns: how ages, counts and tables look. Must not: print.

use ratatui::text::Span;
use serde_json::Value;

use super::screen::in_line;

/// JSON on one line.
pub fn compact(value: &Value) -> String {
    value.to_string()
}

/// JSON as `--json` wants it: on one line for programs, else laid out.
pub fn json(value: &Value, is_for_programs: bool) -> String {
    // The alternate form of a value's `Display` is the pretty one.
    if is_for_programs { compact(value) } else { format!("{value:#}") }
}

/// A span of milliseconds in its two largest units.
pub fn span(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

/// A count in at most five characters.
pub fn count(number: u64) -> String {
    let scaled = |unit: u64, name: &str| match (number / unit, number % unit * 10 / unit) {
        (whole, 0) => format!("{whole}{name}"),
        (whole, tenths) => format!("{whole}.{tenths}{name}"),
    };
    match number {
        0..1000 => number.to_string(),
        1000..1_000_000 => scaled(1000, "k"),
        _ => scaled(1_000_000, "M"),
    }
}

/// A number of bytes.
pub fn size(bytes: u64) -> String {
    let scaled =
        |unit: u64, name: &str| format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit);
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => scaled(1 << 10, "KiB"),
        1_048_576..1_073_741_824 => scaled(1 << 20, "MiB"),
        _ => scaled(1 << 30, "GiB"),
    }
}

/// How many columns of a terminal a text takes.
fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Rows in aligned columns, two spaces apart, each line ending in a newline. Nothing in a
/// cell makes it more than that.
pub fn table<const N: usize>(rows: &[[String; N]]) -> String {
    in_columns(rows.as_flattened(), N)
}

/// The same of cells one after the other, so many in each row.
fn in_columns(cells: &[String], count: usize) -> String {
    let cells: Vec<_> = cells.iter().map(|cell| in_line(cell)).collect();
    let rows = cells.chunks(count.max(1));
    let mut widths = vec![0; count];
    for row in rows.clone() {
        for (column, cell) in widths.iter_mut().zip(row) {
            *column = width(cell).max(*column);
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, column) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', 2 + column.saturating_sub(width(cell))));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_show_their_two_largest_units() {
        for (milliseconds, text) in [
            (999, "0s"),
            (59_000, "59s"),
            (61_000, "1m 1s"),
            (3_660_000, "1h 1m"),
            (90_000_000, "1d 1h"),
        ] {
            assert_eq!(span(milliseconds), text);
        }
    }

    #[test]
    fn counts_are_short() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1k"),
            (4533, "4.5k"),
            (200_000, "200k"),
            (1_250_000, "1.2M"),
        ] {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn columns_are_aligned_as_they_are_seen() {
        let rows = [["ü", "b"], ["漢字", "c"], ["👍", "d"], ["aaaaa", ""]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "ü      b\n漢字   c\n👍     d\naaaaa\n");
    }

    #[test]
    fn a_cell_is_no_row() {
        let rows = [["a\nab12  admin".to_owned(), "b".to_owned()]];
        assert_eq!(table(&rows), "a\\nab12  admin  b\n");
    }
}
