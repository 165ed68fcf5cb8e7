//! Which job is meant.

use serde_json::Value;

use crate::cli::CliError;
use crate::cli::client::Client;
use crate::support::json;

/// The jobs that somebody means.
#[derive(Debug, PartialEq, Eq)]
pub enum Which {
    /// The id of the only one.
    One(String),
    /// There is none.
    None,
    /// Their ids.
    Several(Vec<String>),
}

impl Which {
    /// The job with this id; when there is none, those with this name.
    ///
    /// # Errors
    /// When the gateway does not tell its jobs.
    pub async fn find(client: &mut Client, wanted: &str) -> Result<Self, CliError> {
        let params = json!({"includeDisabled": true, "query": wanted});
        let page = client.request("cron.list", params).await?;
        Ok(Self::of(page["jobs"].as_array().map_or(&[][..], Vec::as_slice), wanted))
    }

    fn of(jobs: &[Value], wanted: &str) -> Self {
        let with = |member: &str| -> Vec<String> {
            let found = jobs.iter().filter(|job| job[member] == wanted);
            found.filter_map(|job| job["id"].as_str()).map(str::to_owned).collect()
        };
        let mut ids = with("id");
        if ids.is_empty() {
            ids = with("name");
        }
        match ids.len() {
            0 => Self::None,
            1 => Self::One(ids.remove(0)),
            _ => Self::Several(ids),
        }
    }
}

/// The job with this id.
///
/// # Errors
/// When the gateway does not tell its jobs.
pub async fn job(client: &mut Client, id: &str) -> Result<Value, CliError> {
    let params = json!({"includeDisabled": true, "query": id});
    let page = client.request("cron.list", params).await?;
    let mut jobs = page["jobs"].as_array().into_iter().flatten();
    jobs.find(|job| job["id"] == id).cloned().ok_or_else(|| CliError::Missing(nobody(id)))
}

/// What is told when there is no such job.
pub fn nobody(wanted: &str) -> String {
    format!("there is no job with the id or name \"{wanted}\"; see `clawgate cron list --all`")
}

/// What is told when there are several.
pub fn several(wanted: &str, ids: &[String]) -> String {
    format!("{} jobs are called \"{wanted}\"; name one by its id: {}", ids.len(), ids.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_goes_before_names_and_a_name_must_be_clear() {
        let job = |id: &str, name: &str| json!({"id": id, "name": name});
        let jobs = [job("a", "tea"), job("b", "mail"), job("c", "mail"), job("mail2", "a")];
        let which = |wanted: &str| Which::of(&jobs, wanted);
        assert_eq!(which("a"), Which::One("a".into()));
        assert_eq!(which("tea"), Which::One("a".into()));
        assert_eq!(which("mail"), Which::Several(vec!["b".into(), "c".into()]));
        assert_eq!(which("mai"), Which::None);
        assert_eq!(which(""), Which::None);
    }
}
