//! Where something is, in a value or a schema.

use std::fmt::{Display, Formatter, Result};

/// A place: names and indices with dots between them, nothing for all of it. It becomes a text
/// only where something is said of it.
pub(super) enum Place<'p> {
    Root,
    Member(&'p Place<'p>, &'p str),
    Item(&'p Place<'p>, usize),
}

impl Place<'_> {
    pub(super) fn is_root(&self) -> bool {
        matches!(self, Self::Root)
    }
}

impl Display for Place<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (Self::Member(up, _) | Self::Item(up, _)) = self else { return Ok(()) };
        up.fmt(f)?;
        if !up.is_root() {
            f.write_str(".")?;
        }
        match self {
            Self::Member(_, name) => f.write_str(name),
            Self::Item(_, index) => index.fmt(f),
            Self::Root => Ok(()),
        }
    }
}
