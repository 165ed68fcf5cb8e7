//! The flags, and which questions they answer. Names are OpenClaw's.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Read};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::ignored::IgnoredArgs;
use super::provider_keys::KeyArgs;
use crate::config::{BindChoice, Env};
use crate::providers::{key_in_environment, known_provider, known_providers};
use crate::support::{Secret, json};
use crate::wizard::{CUSTOM, CUSTOM_KEY, KEEP, Mode, OFFLINE, OLLAMA, SKIP, key_name};

/// Longer than any key.
const MAX_KEY: u64 = 64 * 1024;

/// Arguments of `clawgate onboard`.
#[derive(Debug, Clone, Args)]
#[allow(clippy::struct_excessive_bools)] // they are switches
pub struct OnboardArgs {
    /// Ask nothing: flags answer, and what is usual where there is none
    #[arg(long)]
    pub non_interactive: bool,
    /// Yes, an agent can do harm on this machine
    #[arg(long)]
    pub accept_risk: bool,
    /// Print the outcome as JSON
    #[arg(long)]
    pub json: bool,
    /// Whether the gateway runs here or elsewhere [default: as configured, else local]
    #[arg(long, value_name = "MODE")]
    mode: Option<ModeArg>,
    /// Take keys and tokens without trying them
    #[arg(long)]
    pub skip_check: bool,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    channels: ChannelArgs,
    /// The folder that the agent works in
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<String>,
    /// The agent's name
    #[arg(long, value_name = "NAME")]
    agent_name: Option<String>,
    #[command(flatten)]
    gateway: GatewayArgs,
    /// Have the gateway run as a service of this user (systemd or launchd)
    #[arg(long, help_heading = "Gateway", conflicts_with_all = ["no-install-daemon", "skip-daemon"])]
    pub install_daemon: bool,
    #[command(flatten)]
    ignored: IgnoredArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeArg {
    Local,
    Remote,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Model")]
struct ModelArgs {
    /// Who answers: `<provider>-api-key`, such as anthropic-api-key, or ollama,
    /// custom-api-key, offline, keep, skip
    #[arg(long, value_name = "CHOICE")]
    auth_choice: Option<String>,
    /// The model, without its provider [default: the provider's first]
    #[arg(long, value_name = "ID")]
    model: Option<String>,
    /// Store the key, or which variable has it
    #[arg(long, value_name = "MODE")]
    secret_input_mode: Option<InputMode>,
    /// With --auth-choice token: whose it is
    #[arg(long, value_name = "NAME")]
    token_provider: Option<String>,
    /// With --auth-choice token: it
    #[arg(long, value_name = "TOKEN")]
    token: Option<Secret>,
    /// Where the API of a server of your own, or Ollama, begins
    #[arg(long, value_name = "URL")]
    custom_base_url: Option<String>,
    /// The key of that server, when it wants one
    #[arg(long, value_name = "KEY")]
    custom_api_key: Option<Secret>,
    /// The model of that server
    #[arg(long, value_name = "ID")]
    custom_model_id: Option<String>,
    /// What that server is called here
    #[arg(long, value_name = "ID")]
    custom_provider_id: Option<String>,
    /// Which API it speaks [default: openai]
    #[arg(long, value_name = "API")]
    custom_compatibility: Option<Compatibility>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum InputMode {
    Plaintext,
    Ref,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Compatibility {
    Openai,
    Anthropic,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Channels")]
struct ChannelArgs {
    /// Set up no channel
    #[arg(long, conflicts_with_all = ["telegram_token", "webhook_url", "webhook_secret"])]
    skip_channels: bool,
    /// Set up Telegram with this bot's token
    #[arg(long, value_name = "TOKEN")]
    telegram_token: Option<Secret>,
    /// Set up the webhook; answers go there
    #[arg(long, value_name = "URL")]
    webhook_url: Option<String>,
    /// Set up the webhook; this signs
    #[arg(long, value_name = "SECRET")]
    webhook_secret: Option<Secret>,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Gateway")]
struct GatewayArgs {
    /// Its port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    gateway_port: Option<u16>,
    /// Who can reach it: loopback, tailnet or lan
    #[arg(long, value_name = "MODE")]
    gateway_bind: Option<BindChoice>,
    /// What lets clients in
    #[arg(long, value_name = "MODE", value_parser = ["token", "password"])]
    gateway_auth: Option<String>,
    /// Its token
    #[arg(long, value_name = "TOKEN")]
    gateway_token: Option<Secret>,
    /// Its password
    #[arg(long, value_name = "PASSWORD")]
    gateway_password: Option<Secret>,
    /// With --mode remote: its address
    #[arg(long, value_name = "URL")]
    remote_url: Option<String>,
    /// With --mode remote: its token
    #[arg(long, value_name = "TOKEN")]
    remote_token: Option<Secret>,
}

impl OnboardArgs {
    /// What this machine is to be, if that is said.
    pub const fn mode(&self) -> Option<Mode> {
        match self.mode {
            Some(ModeArg::Remote) => Some(Mode::Remote),
            Some(ModeArg::Local) => Some(Mode::Local),
            None => None,
        }
    }

    /// Whether it says where the gateway is.
    pub const fn has_remote_url(&self) -> bool {
        self.gateway.remote_url.is_some()
    }

    /// All that is secret.
    fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let (channels, gateway) = (&self.channels, &self.gateway);
        let given = [
            &self.model.token,
            &self.model.custom_api_key,
            &channels.telegram_token,
            &channels.webhook_secret,
            &gateway.gateway_token,
            &gateway.gateway_password,
            &gateway.remote_token,
        ];
        let keys = self.keys.given().into_iter().map(|(_, key)| key);
        given.into_iter().flatten().chain(keys)
    }
}

/// Answers by the names of their questions.
pub type Answers = HashMap<&'static str, Value>;

/// What the flags answer.
///
/// # Errors
/// For flags that do not go together.
pub fn answers(args: &OnboardArgs, env: &Env) -> anyhow::Result<Answers> {
    if args.secrets().filter(|secret| secret.matches("-")).count() > 1 {
        bail!("stdin is one secret: give - to one flag, and the others in another run");
    }
    let mut answers = Answers::new();
    let mut put = |name: &'static str, value: Option<Value>| {
        if let Some(value) = value {
            answers.insert(name, value);
        }
    };
    put("risk", args.accept_risk.then_some(json!(true)));
    put("agentName", args.agent_name.as_ref().map(|name| json!(name)));
    put("workspace", args.workspace.as_ref().map(|folder| json!(folder)));
    let channels = &args.channels;
    let has_webhook = channels.webhook_url.is_some() || channels.webhook_secret.is_some();
    let mut chosen = Vec::new();
    chosen.extend(channels.telegram_token.as_ref().map(|_| "telegram"));
    chosen.extend(has_webhook.then_some("webhook"));
    if channels.skip_channels || !chosen.is_empty() {
        put("channels", Some(json!(chosen)));
    }
    put("telegramToken", secret(channels.telegram_token.as_ref())?);
    put("webhookUrl", channels.webhook_url.as_ref().map(|url| json!(url)));
    put("webhookSecret", secret(channels.webhook_secret.as_ref())?);
    let gateway = &args.gateway;
    put("remoteUrl", gateway.remote_url.as_ref().map(|url| json!(url)));
    put("remoteToken", secret(gateway.remote_token.as_ref())?);
    let auth = gateway.gateway_auth.as_deref();
    let auth = auth.or(gateway.gateway_password.as_ref().map(|_| "password"));
    let auth = auth.or(gateway.gateway_token.as_ref().map(|_| "token"));
    put("port", gateway.gateway_port.map(|port| json!(port)));
    put("bind", gateway.gateway_bind.map(|bind| json!(bind.to_string())));
    put("auth", auth.map(|auth| json!(auth)));
    put("gatewayToken", secret(gateway.gateway_token.as_ref())?);
    put("gatewayPassword", secret(gateway.gateway_password.as_ref())?);
    let changes = ["port", "bind", "auth"].iter().any(|name| answers.contains_key(name));
    if changes {
        answers.insert("gateway", json!("change"));
    }
    of_model(args, env, &mut answers)?;
    Ok(answers)
}

fn of_model(args: &OnboardArgs, env: &Env, answers: &mut Answers) -> anyhow::Result<()> {
    let model = &args.model;
    let keys = args.keys.given();
    if keys.len() > 1 {
        bail!("give the key of one provider");
    }
    let key = keys.first().copied();
    let provider = match (model.auth_choice.as_deref(), key) {
        (Some("token" | "setup-token"), _) => {
            Some(provider(model.token_provider.as_deref().unwrap_or("anthropic"))?)
        }
        (Some(choice), _) => Some(provider(choice)?),
        (None, Some((provider, _))) => Some(provider),
        (None, None) if model.custom_base_url.is_some() => Some(CUSTOM),
        (None, None) => None,
    };
    if let (Some(provider), Some((of, _))) = (provider, key)
        && provider != of
    {
        bail!("--{}-api-key does not go with --auth-choice", key_name(of));
    }
    let given = match provider {
        Some(CUSTOM) => model.custom_api_key.as_ref(),
        _ => key.map(|(_, key)| key).or(model.token.as_ref()),
    };
    let by_reference = model.secret_input_mode == Some(InputMode::Ref);
    // A server of one's own may want no key.
    let refers = by_reference && (given.is_some() || provider != Some(CUSTOM));
    if let Some(provider) = provider.filter(|_| refers) {
        check_variable(provider, env)?;
    }
    let mut put = |name: &'static str, value: Option<Value>| {
        if let Some(value) = value {
            answers.insert(name, value);
        }
    };
    put("provider", provider.map(|provider| json!(provider)));
    put("keySource", given.map(|_| json!("enter")));
    if by_reference {
        put("keySource", Some(json!("variable")));
    } else {
        put("key", secret(given)?);
    }
    put("model", model.model.as_ref().map(|model| json!(model)));
    put("modelId", model.custom_model_id.as_ref().map(|model| json!(model)));
    let address = if provider == Some(OLLAMA) { "ollamaUrl" } else { "baseUrl" };
    put(address, model.custom_base_url.as_ref().map(|url| json!(url)));
    put("providerId", model.custom_provider_id.as_ref().map(|id| json!(id)));
    let api = model.custom_compatibility.map(|api| match api {
        Compatibility::Openai => "openai-completions",
        Compatibility::Anthropic => "anthropic-messages",
    });
    put("api", api.map(|api| json!(api)));
    Ok(())
}

/// A key is not stored when a variable is to be referred to: without one there is nothing to
/// refer to, and a key that is given would be lost.
fn check_variable(provider: &str, env: &Env) -> anyhow::Result<()> {
    let lookup = |name: &str| env.get(name);
    let (variable, is_set) = match known_provider(provider) {
        Some((_, variable)) => (variable, key_in_environment(provider, &lookup).is_some()),
        None if provider == CUSTOM => (CUSTOM_KEY, lookup(CUSTOM_KEY).is_some()),
        None => return Ok(()),
    };
    if is_set {
        return Ok(());
    }
    bail!(
        "--secret-input-mode ref stores which variable has the key, and {variable} is not set; \
         set it, or leave the mode out to store the key"
    )
}

/// The provider that a choice of OpenClaw stands for.
fn provider(choice: &str) -> anyhow::Result<&'static str> {
    let name = choice.trim();
    let name = if name == "apiKey" { "anthropic" } else { name };
    let name = name.strip_suffix("-api-key").unwrap_or(name);
    let name = name.strip_suffix("-api").unwrap_or(name);
    let own = [OLLAMA, CUSTOM, OFFLINE, KEEP, SKIP];
    let found = own
        .into_iter()
        .find(|own| *own == name)
        .or_else(|| known_providers().find(|id| *id == name || key_name(id) == name));
    found.with_context(|| {
        let known: Vec<_> =
            known_providers().map(|id| format!("{}-api-key", key_name(id))).collect();
        format!(
            "--auth-choice {choice} is not offered here; there are {}, ollama, \
             custom-api-key, token, offline, keep, skip",
            known.join(", ")
        )
    })
}

/// A secret of a flag; `-` is one from stdin.
fn secret(given: Option<&Secret>) -> anyhow::Result<Option<Value>> {
    let Some(given) = given else { return Ok(None) };
    if !given.matches("-") {
        return Ok(Some(json!(given.expose())));
    }
    let stdin = io::stdin();
    let is_shown = stdin.is_terminal();
    Ok(Some(json!(piped(&mut stdin.lock(), is_shown)?.expose())))
}

/// The secret that stdin has, unless what is typed there `is_shown`.
///
/// # Errors
/// When there is none: the one that was there before, or a new one, would take its place.
fn piped(stdin: &mut dyn Read, is_shown: bool) -> anyhow::Result<Secret> {
    if is_shown {
        bail!(
            "- reads a secret from a pipe or a file: on a terminal it would be shown. Without \
             the flag, and without --non-interactive, it is asked for and not shown"
        );
    }
    let mut text = String::new();
    stdin.take(MAX_KEY).read_to_string(&mut text).context("stdin is no text")?;
    let secret = Secret::new(text);
    if secret.is_empty() {
        bail!("stdin is empty, and - reads a secret from it; nothing was written");
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: OnboardArgs,
    }

    fn read(flags: &[&str]) -> anyhow::Result<Answers> {
        read_with(flags, &Env::fixed([], "/h"))
    }

    fn read_with(flags: &[&str], env: &Env) -> anyhow::Result<Answers> {
        let line = Line::try_parse_from([&["onboard"], flags].concat())?;
        answers(&line.args, env)
    }

    #[test]
    fn the_choices_of_openclaw_name_our_providers() {
        for (choice, id) in [
            ("apiKey", "anthropic"),
            ("anthropic-api-key", "anthropic"),
            ("gemini-api-key", "google"),
            ("openrouter-api-key", "openrouter"),
            ("minimax-api", "minimax"),
            ("custom-api-key", CUSTOM),
            ("ollama", OLLAMA),
            ("skip", SKIP),
        ] {
            assert_eq!(provider(choice).unwrap(), id);
        }
        let error = provider("copilot-proxy").unwrap_err().to_string();
        assert!(error.contains("anthropic-api-key") && error.contains("gemini-api-key"), "{error}");
    }

    #[test]
    fn a_key_says_whose_it_is() {
        let found = read(&["--gemini-api-key", "k"]).unwrap();
        assert_eq!((&found["provider"], &found["key"]), (&json!("google"), &json!("k")));
        assert_eq!(found["keySource"], "enter");
        assert!(read(&["--gemini-api-key", "k", "--auth-choice", "apiKey"]).is_err());
        assert!(read(&["--gemini-api-key", "k", "--openai-api-key", "k"]).is_err());
        let env = Env::fixed([("ANTHROPIC_API_KEY", "v")], "/h");
        let by_reference = ["--auth-choice", "apiKey", "--secret-input-mode", "ref"];
        let found = read_with(&by_reference, &env).unwrap();
        assert_eq!((found["keySource"].clone(), found.get("key")), (json!("variable"), None));
        let error = read(&by_reference).unwrap_err().to_string();
        assert!(error.contains("ANTHROPIC_API_KEY is not set; set it, or leave"), "{error}");
    }

    #[test]
    fn a_key_that_would_be_lost_is_refused() {
        let reference = ["--secret-input-mode", "ref", "--custom-base-url", "http://h/v1"];
        let given = [&reference[..], &["--custom-api-key", "k"]].concat();
        let error = read(&given).unwrap_err().to_string();
        assert!(error.contains("CUSTOM_API_KEY is not set"), "{error}");
        let env = Env::fixed([("CUSTOM_API_KEY", "v")], "/h");
        assert_eq!(read_with(&given, &env).unwrap()["keySource"], "variable");
        assert!(read(&reference).is_ok(), "it may want none");
        let error = read(&["--xai-api-key", "k", "--secret-input-mode", "ref"]).unwrap_err();
        assert!(error.to_string().contains("XAI_API_KEY is not set"), "{error}");
    }

    #[test]
    fn stdin_is_one_secret() {
        for flags in [
            &["--anthropic-api-key", "-", "--telegram-token", "-"][..],
            &["--custom-api-key", "-", "--gateway-password", "-"],
        ] {
            let error = read(flags).unwrap_err().to_string();
            assert!(error.contains("one flag"), "{error}");
        }
    }

    #[test]
    fn a_secret_of_stdin_is_there_and_comes_from_no_terminal() {
        let secret = piped(&mut &b" key \n"[..], false).unwrap();
        assert!(secret.matches("key"));
        let error = piped(&mut &b" \n"[..], false).unwrap_err().to_string();
        assert!(error.contains("stdin is empty"), "{error}");
        let error = piped(&mut &b"key\n"[..], true).unwrap_err().to_string();
        assert!(error.contains("would be shown"), "{error}");
    }

    #[test]
    fn a_flag_of_the_gateway_or_a_channel_answers_that_there_is_something_to_change() {
        let found = read(&["--gateway-port", "7", "--telegram-token", "t"]).unwrap();
        assert_eq!((&found["gateway"], &found["port"]), (&json!("change"), &json!(7)));
        assert_eq!(found["channels"], json!(["telegram"]));
        assert_eq!(read(&["--gateway-password", "p"]).unwrap()["auth"], "password");
        assert_eq!(read(&[]).unwrap(), Answers::new());
        assert_eq!(read(&["--skip-channels", "--skip-skills"]).unwrap()["channels"], json!([]));
    }

    #[test]
    fn a_service_is_wanted_or_not() {
        let wanted = |flags: &[&str]| Line::try_parse_from([&["onboard"], flags].concat());
        let with = ["--install-daemon", "--daemon-runtime", "node"];
        assert!(wanted(&with).unwrap().args.install_daemon);
        assert!(!wanted(&["--no-install-daemon", "--skip-daemon"]).unwrap().args.install_daemon);
        assert!(wanted(&["--install-daemon", "--skip-daemon"]).is_err());
    }
}
