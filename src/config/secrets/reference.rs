//! What may stand where a credential is wanted.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::super::redact::REDACTED;
use super::ResolvedSecrets;
use crate::support::Secret;

/// Longest name of a provider, as in OpenClaw.
const PROVIDER_MAX: usize = 64;
/// Longest name of a variable.
const VARIABLE_MAX: usize = 128;
/// Longest id given to a program.
const EXEC_ID_MAX: usize = 256;
/// The id of a file that holds one secret and nothing else.
pub(super) const WHOLE_FILE: &str = "value";

/// Where a referred secret is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretSource {
    /// In an environment variable.
    Env,
    /// In a file.
    File,
    /// A program knows it.
    Exec,
}

impl SecretSource {
    /// The name in the config file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Env => "env",
            Self::File => "file",
            Self::Exec => "exec",
        }
    }

    /// The one of this name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Env, Self::File, Self::Exec].into_iter().find(|source| source.as_str() == name)
    }
}

/// `{source, provider, id}`: where a secret is. No secret itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct SecretRef {
    /// What kind of place it is in.
    pub source: SecretSource,
    /// Which of `secrets.providers`; the default one of its source when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Variable, JSON pointer or name, by source.
    pub id: String,
}

#[derive(Deserialize)]
struct Written {
    /// Whoever takes a reference for its secret writes that here, so no error quotes it.
    source: String,
    #[serde(default)]
    provider: Option<String>,
    id: String,
}

impl<'de> Deserialize<'de> for SecretRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written { source, provider, id } = Written::deserialize(deserializer)?;
        let source = SecretSource::parse(&source);
        let source =
            source.ok_or_else(|| de::Error::custom("source must be one of env, file, exec"))?;
        let reference = Self { source, provider, id };
        reference.check().map_err(de::Error::custom)?;
        Ok(reference)
    }
}

impl SecretRef {
    fn check(&self) -> Result<(), &'static str> {
        if !self.provider.as_deref().is_none_or(is_provider) {
            return Err("provider must be 1 to 64 of a-z, 0-9, - and _, beginning with a letter");
        }
        let id = self.id.as_str();
        let (fits, rule) = match self.source {
            SecretSource::Env => {
                (is_variable(id), "id must be the name of a variable (A-Z, 0-9, _)")
            }
            SecretSource::File => {
                (id == WHOLE_FILE || id.starts_with('/'), "id must be \"value\" or begin with /")
            }
            SecretSource::Exec => (
                is_exec_id(id),
                "id must be 1 to 256 of A-Z, a-z, 0-9 and ._:/#-, without . or .. as a part",
            ),
        };
        if fits { Ok(()) } else { Err(rule) }
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let provider = self.provider.as_deref().unwrap_or("default");
        write!(f, "{}:{provider}:{}", self.source.as_str(), self.id)
    }
}

pub(super) fn is_provider(name: &str) -> bool {
    name.len() <= PROVIDER_MAX
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c))
}

fn is_variable(name: &str) -> bool {
    name.len() <= VARIABLE_MAX
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

fn is_exec_id(id: &str) -> bool {
    id.len() <= EXEC_ID_MAX
        && id.starts_with(|c: char| c.is_ascii_alphanumeric())
        && id.chars().all(|c| c.is_ascii_alphanumeric() || "._:/#-".contains(c))
        && !id.split('/').any(|part| part == "." || part == "..")
}

/// A credential as it stands in the file: itself, or where it is.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretInput {
    /// Itself.
    Text(Secret),
    /// Where it is.
    Ref(SecretRef),
}

impl SecretInput {
    /// A text of the file.
    ///
    /// # Errors
    /// What is wrong with one that is shown in the place of a secret: everybody knows it.
    pub fn written(text: &str) -> Result<Self, &'static str> {
        if text.contains(REDACTED) {
            return Err(
                "has the placeholder that is shown instead of a secret; write the secret itself",
            );
        }
        Ok(Self::Text(Secret::new(text)))
    }

    /// The reference, if it is one.
    pub const fn reference(&self) -> Option<&SecretRef> {
        match self {
            Self::Text(_) => None,
            Self::Ref(reference) => Some(reference),
        }
    }

    /// The credential; `None` when it is empty or could not be found.
    pub fn resolve(&self, secrets: &ResolvedSecrets) -> Option<Secret> {
        let secret = match self {
            Self::Text(secret) => secret.clone(),
            Self::Ref(reference) => secrets.get(reference)?.clone(),
        };
        (!secret.is_empty()).then_some(secret)
    }
}

impl<'de> Deserialize<'de> for SecretInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InputVisitor)
    }
}

struct InputVisitor;

impl<'de> de::Visitor<'de> for InputVisitor {
    type Value = SecretInput;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or {source, provider, id}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<SecretInput, E> {
        SecretInput::written(text).map_err(E::custom)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<SecretInput, A::Error> {
        SecretRef::deserialize(de::value::MapAccessDeserializer::new(map)).map(SecretInput::Ref)
    }
}

/// Written back only where it already stands: in a file for the owner's eyes.
impl Serialize for SecretInput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(secret) => serializer.serialize_str(secret.expose()),
            Self::Ref(reference) => reference.serialize(serializer),
        }
    }
}

impl fmt::Debug for SecretInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("SecretInput(…)"),
            Self::Ref(reference) => write!(f, "SecretInput({reference})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    use crate::support::json;

    fn read(value: Value) -> Result<SecretInput, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn a_credential_is_a_text_or_a_reference() {
        let text = read(json!(" k ")).unwrap();
        assert_eq!(text.resolve(&ResolvedSecrets::default()).unwrap().expose(), "k");
        assert!(read(json!("")).unwrap().resolve(&ResolvedSecrets::default()).is_none());
        for (written, shown) in [
            (json!({"source": "env", "id": "A_1"}), "env:default:A_1"),
            (json!({"source": "file", "provider": "f", "id": "/a/b"}), "file:f:/a/b"),
            (json!({"source": "file", "provider": "f", "id": "value"}), "file:f:value"),
            (json!({"source": "exec", "provider": "v-1", "id": "a/b#c"}), "exec:v-1:a/b#c"),
        ] {
            let reference = read(written).unwrap();
            assert_eq!(reference.reference().unwrap().to_string(), shown);
            assert!(reference.resolve(&ResolvedSecrets::default()).is_none());
        }
    }

    #[test]
    fn a_reference_that_names_no_place_is_refused() {
        for (written, why) in [
            (json!({"source": "env", "id": "lower"}), "id must be the name of a variable"),
            (json!({"source": "file", "id": "a"}), "id must be \"value\" or begin with /"),
            (json!({"source": "exec", "id": "a/../b"}), "without . or .. as a part"),
            (json!({"source": "exec", "id": "-x"}), "id must be 1 to 256"),
            (json!({"source": "env", "id": "A", "provider": "Up"}), "provider must be"),
            (json!({"source": "web", "id": "A"}), "source must be one of env, file, exec"),
            (json!({"source": "env"}), "missing field `id`"),
            (json!(5), "a string or {source, provider, id}"),
            (json!(format!("Bearer {REDACTED}")), "has the placeholder"),
        ] {
            let error = read(written.clone()).unwrap_err();
            assert!(error.contains(why) && !error.contains("web"), "{written}: {error}");
        }
    }

    #[test]
    fn debug_output_hides_the_secret_and_names_the_place() {
        assert_eq!(format!("{:?}", read(json!("sk-1")).unwrap()), "SecretInput(…)");
        let reference = read(json!({"source": "env", "id": "A"})).unwrap();
        assert_eq!(format!("{reference:?}"), "SecretInput(env:default:A)");
    }
}
