//! Members of small records that we do not know.
//!
//! Promises: a record without any takes one word and no allocation for it.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// Members that we do not know, for `serde(flatten)` in a record that is held
/// and copied in large numbers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extra(Option<Box<Map<String, Value>>>);

impl Extra {
    /// The member of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.as_ref()?.get(name)
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl From<Map<String, Value>> for Extra {
    fn from(members: Map<String, Value>) -> Self {
        Self((!members.is_empty()).then(|| Box::new(members)))
    }
}

impl Serialize for Extra {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().flat_map(|members| members.iter()))
    }
}

impl<'de> Deserialize<'de> for Extra {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Self::from)
    }
}
