//! Colours: the terminal's own sixteen, so that dark and light ones are both readable.

use ratatui::style::{Color, Modifier, Style};

/// Which styles are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// Whether there are colours at all.
    pub has_colour: bool,
}

#[allow(clippy::unused_self)] // all styles are asked for in one way
impl Theme {
    fn in_colour(self, colour: Color) -> Style {
        if self.has_colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// What matters less.
    pub const fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// What matters more.
    pub const fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What is chosen.
    pub const fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// What the user said.
    pub fn user(self) -> Style {
        self.in_colour(Color::Cyan)
    }

    /// Code, and names of things.
    pub fn code(self) -> Style {
        self.in_colour(Color::Magenta)
    }

    /// Addresses.
    pub fn link(self) -> Style {
        self.in_colour(Color::Blue).add_modifier(Modifier::UNDERLINED)
    }

    /// What works.
    pub fn good(self) -> Style {
        self.in_colour(Color::Green)
    }

    /// What is under way, or wants attention.
    pub fn busy(self) -> Style {
        self.in_colour(Color::Yellow)
    }

    /// What failed.
    pub fn bad(self) -> Style {
        self.in_colour(Color::Red)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colours_there_are_none() {
        let (with, without) = (Theme { has_colour: true }, Theme { has_colour: false });
        assert_eq!(with.bad().fg, Some(Color::Red));
        for style in [without.user(), without.code(), without.link(), without.bad()] {
            assert_eq!(style.fg, None);
        }
    }
}
