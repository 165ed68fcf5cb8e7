//! `mcp.servers`: programs and servers that bring tools along.
//!
//! Owns: the shape of that section, as OpenClaw and others write it. Promises:
//! what is wrong with one server is told as that server's fault and keeps
//! nobody else from starting; no secret shows up in `Debug`. Must not: start
//! anything.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::schema::Node;
use super::secrets::{SecretInput, SecretRef};
use super::{ConfigError, Paths, decides_code};
use crate::support::sort;

/// Most servers; each is a process or a connection.
const SERVERS_MAX: usize = 64;
/// How long a server may take to be there: one that is fetched first takes a while.
const CONNECT: Duration = Duration::from_secs(30);
/// How long a call may take.
const REQUEST: Duration = Duration::from_mins(1);
/// Bound of both.
const LIMIT_MAX: Duration = Duration::from_hours(1);

/// `mcp`.
#[derive(Debug, Clone, Default)]
pub struct McpConfig {
    /// The servers that are on, by name, in the order of the file.
    pub servers: Vec<McpServer>,
}

/// One of `mcp.servers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Its name in the file.
    pub name: String,
    /// How to reach it, or why that is not possible.
    pub way: Result<McpWay, String>,
    /// How long it may take to be there.
    pub connect: Duration,
    /// How long a call may take.
    pub request: Duration,
    /// Which of its tools are taken: their names, `*` for anything.
    pub include: Vec<String>,
    /// Which of its tools are not taken.
    pub exclude: Vec<String>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpWay {
    /// A program that we start.
    Stdio(McpProgram),
    /// Somebody who listens.
    Http {
        /// Where; it may hold a key.
        url: SecretInput,
        /// What is sent along, which are keys mostly.
        headers: BTreeMap<String, SecretInput>,
    },
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpProgram {
    /// Its path, or its name in `PATH`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables beside those that every program gets.
    pub env: BTreeMap<String, SecretInput>,
    /// Where it is started; the state directory when not set.
    pub cwd: Option<PathBuf>,
}

impl McpServer {
    /// Every reference to a secret.
    pub fn references(&self) -> Vec<&SecretRef> {
        let Ok(way) = &self.way else { return Vec::new() };
        match way {
            McpWay::Stdio(program) => {
                program.env.values().filter_map(SecretInput::reference).collect()
            }
            McpWay::Http { url, headers } => {
                headers.values().chain([url]).filter_map(SecretInput::reference).collect()
            }
        }
    }
}

/// A server as it stands in the file.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    enabled: Option<bool>,
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, Scalar>,
    #[serde(alias = "workingDirectory")]
    cwd: Option<String>,
    url: Option<SecretInput>,
    transport: Option<String>,
    r#type: Option<String>,
    headers: BTreeMap<String, Scalar>,
    connect_timeout: Option<f64>,
    connection_timeout_ms: Option<u64>,
    timeout: Option<f64>,
    request_timeout_ms: Option<u64>,
    tool_filter: Filter,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Filter {
    include: Vec<String>,
    exclude: Vec<String>,
}

/// A text, or what people write without quotes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Input(SecretInput),
    Number(serde_json::Number),
    Boolean(bool),
}

impl From<Scalar> for SecretInput {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Input(input) => input,
            Scalar::Number(number) => Self::Text(number.to_string().into()),
            Scalar::Boolean(value) => Self::Text(value.to_string().into()),
        }
    }
}

/// Reads the section; an error names the key inside it.
pub(super) fn read(root: &Node<'_>, paths: &Paths) -> Result<McpConfig, ConfigError> {
    let node = root.at("mcp.servers")?;
    let members = node.members()?;
    if members.len() > SERVERS_MAX {
        return Err(node.wrong(&format!("has more than {SERVERS_MAX} servers")));
    }
    let mut servers = Vec::new();
    for (name, node) in members {
        let written: Written = node.deserialize()?;
        if written.enabled == Some(false) {
            continue;
        }
        servers.push(server(name, written, paths));
    }
    Ok(McpConfig { servers })
}

fn server(name: String, mut written: Written, paths: &Paths) -> McpServer {
    let connect = limit(written.connect_timeout, written.connection_timeout_ms, CONNECT);
    let request = limit(written.timeout, written.request_timeout_ms, REQUEST);
    let Filter { include, exclude } = std::mem::take(&mut written.tool_filter);
    McpServer { name, way: way(written, paths), connect, request, include, exclude }
}

fn way(written: Written, paths: &Paths) -> Result<McpWay, String> {
    let inputs = |scalars: BTreeMap<String, Scalar>| -> BTreeMap<String, SecretInput> {
        sort::map(scalars.into_iter().map(|(name, scalar)| (name, scalar.into())))
    };
    let kind = written.transport.or(written.r#type).map(|kind| kind.trim().to_lowercase());
    match kind.as_deref() {
        None | Some("stdio" | "http" | "streamable-http") => {}
        Some("sse") => {
            return Err("the transport \"sse\" is not supported; most servers that speak it also \
                        speak \"streamable-http\""
                .into());
        }
        Some(other) => return Err(format!("there is no transport {other:?}")),
    }
    let command = written.command.map(|text| text.trim().to_owned()).filter(|it| !it.is_empty());
    match (command, written.url) {
        (Some(_), Some(_)) => Err("it has both a command and a url".into()),
        (None, None) => Err("it has neither a command nor a url".into()),
        (None, Some(url)) => Ok(McpWay::Http { url, headers: inputs(written.headers) }),
        (Some(command), None) => {
            if let Some(name) = written.env.keys().find(|name| is_refused(name)) {
                return Err(format!("env.{name} changes how programs start and is not allowed"));
            }
            let cwd = written.cwd.map(|text| paths.expand(text.trim())).transpose();
            let cwd = cwd.map_err(|error| format!("cwd: {error}"))?;
            let env = inputs(written.env);
            Ok(McpWay::Stdio(McpProgram { command, args: written.args, env, cwd }))
        }
    }
}

/// Whether a server's `env` may not set a variable: a line of configuration
/// would be code.
fn is_refused(name: &str) -> bool {
    name.is_empty() || name.contains(['=', '\0']) || decides_code(name)
}

fn limit(seconds: Option<f64>, millis: Option<u64>, usual: Duration) -> Duration {
    let seconds = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let written = millis.map(Duration::from_millis).or(seconds);
    written.filter(|it| !it.is_zero()).unwrap_or(usual).min(LIMIT_MAX)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::config::Env;
    use crate::support::json;

    fn read(servers: &Value) -> Result<Vec<McpServer>, ConfigError> {
        let root = json!({"mcp": {"servers": servers}});
        let paths = Paths::resolve(&Env::fixed([], "/home/u")).unwrap();
        super::read(&Node::root(&root, Path::new("openclaw.json")), &paths).map(|it| it.servers)
    }

    fn fault(server: &Value) -> String {
        read(&json!({ "one": server })).unwrap().remove(0).way.unwrap_err()
    }

    #[test]
    fn both_ways_are_read_as_openclaw_writes_them() {
        let servers = read(&json!({
            "files": {"command": "npx", "args": ["-y", "x"], "env": {"PORT": 1, "KEY": "key-1"},
                "workingDirectory": "~/w", "timeout": 2.5, "toolFilter": {"include": ["a_*"]}},
            "off": {"command": "x", "enabled": false},
            "docs": {"url": "https://mcp.example.com", "transport": "streamable-http",
                "headers": {"Authorization": {"source": "env", "id": "DOCS_KEY"}},
                "connectionTimeoutMs": 500}}))
        .unwrap();
        let [files, docs] = &servers[..] else { panic!("{servers:?}") };
        assert!(!format!("{servers:?}").contains("key-1"));
        let Ok(McpWay::Stdio(program)) = &files.way else { panic!("{files:?}") };
        assert_eq!(program.cwd.as_deref(), Some(Path::new("/home/u/w")));
        assert_eq!((files.request, files.connect), (Duration::from_millis(2500), CONNECT));
        assert_eq!(files.include, ["a_*"]);
        assert!(matches!(docs.way, Ok(McpWay::Http { .. })));
        assert_eq!(docs.connect, Duration::from_millis(500));
        assert_eq!(docs.references()[0].id, "DOCS_KEY");
    }

    #[test]
    fn what_is_wrong_with_a_server_is_its_own_fault() {
        assert!(fault(&json!({})).contains("neither a command nor a url"));
        assert!(fault(&json!({"command": "x", "url": "http://x"})).contains("both"));
        assert!(fault(&json!({"url": "http://x", "transport": "sse"})).contains("sse"));
        for name in ["NODE_OPTIONS", "LD_PRELOAD", "ld_preload", "PYTHONPATH", "A=B", ""] {
            let server = json!({"command": "x", "env": {name: "1"}});
            assert!(fault(&server).contains("not allowed"), "{name}");
        }
        let error = read(&json!({"one": {"args": 1}})).unwrap_err().to_string();
        assert!(error.contains("mcp.servers.one") && error.contains("args"), "{error}");
    }
}
