//! Choosing one of many.

/// What is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A session of this agent.
    Sessions,
    /// A model for this session.
    Models,
    /// An agent.
    Agents,
    /// How much the model thinks.
    Thinking,
    /// What is shown.
    Settings,
}

impl Kind {
    /// What stands above.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Sessions => "Sessions",
            Self::Models => "Models",
            Self::Agents => "Agents",
            Self::Thinking => "Thinking",
            Self::Settings => "Settings",
        }
    }
}

/// A list that is longer is searched at the gateway.
const MAX_ITEMS: usize = 2000;

/// One line of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Item {
    /// What is chosen by it.
    pub id: String,
    /// What it is called.
    pub title: String,
    /// What is said about it.
    pub detail: String,
    /// Whether it is chosen already.
    pub is_current: bool,
}

/// A list with a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picker {
    /// What is chosen.
    pub kind: Kind,
    /// What is searched for.
    pub filter: String,
    /// Whether the gateway has not answered yet.
    pub is_loading: bool,
    /// Whether the gateway has more than are here.
    pub has_more: bool,
    items: Vec<Item>,
    /// Among those that fit.
    selected: usize,
}

impl Picker {
    /// A list that is not there yet.
    pub const fn loading(kind: Kind) -> Self {
        Self {
            kind,
            filter: String::new(),
            is_loading: true,
            has_more: false,
            items: Vec::new(),
            selected: 0,
        }
    }

    /// The list is there. What was chosen stays so, at first what is current.
    pub fn fill(&mut self, mut items: Vec<Item>) {
        items.truncate(MAX_ITEMS);
        let was = self.chosen().map(|item| item.id.clone());
        self.items = items;
        self.is_loading = false;
        let wanted = |item: &&Item| match &was {
            Some(id) => item.id == *id,
            None => item.is_current,
        };
        let at = self.fitting().position(|item| wanted(&item));
        self.selected = at.unwrap_or(0);
    }

    /// Those that fit to the search.
    pub fn fitting(&self) -> impl Iterator<Item = &Item> {
        let words: Vec<String> = self.filter.split_whitespace().map(str::to_lowercase).collect();
        self.items.iter().filter(move |item| {
            let text = format!("{} {} {}", item.id, item.title, item.detail).to_lowercase();
            words.iter().all(|word| text.contains(word))
        })
    }

    /// Place of the chosen one among those that fit.
    pub const fn selected(&self) -> usize {
        self.selected
    }

    /// The chosen one.
    pub fn chosen(&self) -> Option<&Item> {
        self.fitting().nth(self.selected)
    }

    /// Goes up or down.
    pub fn step(&mut self, by: isize) {
        let last = self.fitting().count().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
    }

    /// Searches for something else.
    pub fn search(&mut self, filter: &str) {
        filter.clone_into(&mut self.filter);
        self.selected = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picker() -> Picker {
        let mut picker = Picker::loading(Kind::Models);
        let item = |id: &str, is_current| Item {
            id: id.into(),
            title: id.to_uppercase(),
            is_current,
            ..Item::default()
        };
        picker.fill(vec![item("a/one", false), item("b/one", true), item("b/two", false)]);
        picker
    }

    #[test]
    fn the_current_one_is_chosen_first() {
        assert_eq!(picker().chosen().unwrap().id, "b/one");
    }

    #[test]
    fn all_words_of_a_search_have_to_fit() {
        let mut picker = picker();
        picker.search("ONE b");
        assert_eq!(picker.fitting().map(|item| item.id.as_str()).collect::<Vec<_>>(), ["b/one"]);
        picker.search("none");
        assert_eq!(picker.chosen(), None);
        picker.step(1);
        assert_eq!(picker.chosen(), None);
    }

    #[test]
    fn steps_end_at_the_ends() {
        let mut picker = picker();
        picker.step(-9);
        assert_eq!(picker.selected(), 0);
        picker.step(9);
        assert_eq!(picker.chosen().unwrap().id, "b/two");
    }
}
