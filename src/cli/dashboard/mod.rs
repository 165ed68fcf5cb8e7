//! `clawgate dashboard`: logs a browser in.
//!
//! Owns: the link that is printed and opened. Promises: what it holds is good for
//! one browser and some minutes, and is no credential of the gateway itself.
//! Must not: open anything where nobody sees it.

mod advice;
mod link;
mod open;
mod tailscale;

use std::net::{IpAddr, SocketAddr};

use clap::{Args, ValueEnum};

use crate::auth::origin::page_verdict;
use crate::config::Overrides;
use crate::support::json;

use super::client::GatewayUrl;
use super::devices::Way;
use super::surroundings::settings;
use super::{CliError, ConnectArgs, Screen, Surroundings, banner, format};
use link::login_link;

/// Arguments of `clawgate dashboard`.
#[derive(Debug, Args)]
pub struct DashboardArgs {
    /// Print the link, open no browser
    #[arg(long)]
    no_open: bool,
    /// Which page to log in to [default: the Control UI where it is installed]
    #[arg(long, value_name = "UI")]
    ui: Option<Ui>,
    /// Address at which the browser reaches the gateway.
    #[arg(
        long,
        value_name = "URL",
        help = "Address at which the browser reaches the gateway, such as https://gateway.example [default: the one it listens at]"
    )]
    public_url: Option<String>,
    /// How to reach the gateway.
    #[command(flatten)]
    connect: ConnectArgs,
}

/// A page that a browser can log in to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Ui {
    /// The page that the gateway brings along
    Own,
    /// OpenClaw's Control UI
    Control,
}

/// Gets a code, prints the link with it, and opens it where somebody sees it.
pub async fn run(
    args: DashboardArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let public = args.public_url.as_deref().map(parse_public).transpose()?;
    let mut way = Way::find(&args.connect, around).await?;
    let (url, fingerprint) = match &way {
        Way::Control(_) => (own_address(around)?, around.local.tls_fingerprint),
        Way::Gateway(_) => {
            let target = args.connect.target(around)?;
            (to_go_to(target.url)?, target.tls_fingerprint)
        }
    };
    let issued = way.request("device.pair.loginCode", json!({})).await?;
    let control_ui = issued["controlUiBasePath"].as_str();
    if args.ui == Some(Ui::Control) && control_ui.is_none() {
        return Err(CliError::Usage(
            "this gateway serves no Control UI; `clawgate ui install` gets it, and --ui own is for the page that is built in".into(),
        ));
    }
    let control_ui = control_ui.filter(|_| args.ui != Some(Ui::Own));
    let code = issued["bootstrapToken"].as_str().unwrap_or_default();
    let link_at = |url: &GatewayUrl| login_link(url, control_ui, code);
    // What stands before the gateway elsewhere has a certificate of its own.
    let is_direct = public.is_none();
    let link = link_at(public.as_ref().unwrap_or(&url));
    if let (Way::Control(_), Some(text)) = (&way, public.as_ref().and_then(|it| closed(it, around)))
    {
        screen.note(&text)?;
    }
    if args.connect.json {
        let answer = json!({
            "url": link,
            "ui": if control_ui.is_some() { "control" } else { "own" },
            "expiresAtMs": issued["expiresAtMs"],
            "tlsFingerprint": fingerprint.filter(|_| is_direct && url.is_tls()).map(|it| it.to_string()),
        });
        screen.line(&format::compact(&answer))?;
        return Ok(0);
    }
    screen.line(&link)?;
    let place = open::Place::of(around);
    if is_direct {
        if let Some(name) = tailscale::served_at(around, &url).await {
            let elsewhere = link_at(&name);
            screen.note(&format!("From a machine of your tailnet: {elsewhere}"))?;
        }
        for line in advice::of(&url, fingerprint, &place) {
            screen.note(&line)?;
        }
    }
    screen.note("It is good for one browser and five minutes; after that, run this again.")?;
    if !args.no_open
        && let Some(page) = open::open(&place, &link, around.env.home()).await
    {
        screen.note("Opened in your browser.")?;
        page.stays().await;
    }
    Ok(0)
}

fn parse_public(text: &str) -> Result<GatewayUrl, CliError> {
    GatewayUrl::parse(text).map_err(|_| {
        CliError::Usage(
            "--public-url is no address of a gateway; write it like https://gateway.example".into(),
        )
    })
}

/// What is wrong with a link to there: this machine's gateway takes no page of that address,
/// wherever its browser is.
fn closed(public: &GatewayUrl, around: &Surroundings) -> Option<String> {
    let looking = Overrides { read_only: true, ..Overrides::default() };
    // Without settings nothing is known against it.
    let settings = settings(&around.env, &looking).ok()?;
    let verdict = page_verdict(public.as_str(), &settings.gateway.control_ui)?;
    (verdict.here.is_err() && verdict.elsewhere.is_err()).then(|| verdict.to_string())
}

/// Every address is one to listen at, and none to go to: who names it means this machine.
fn to_go_to(url: GatewayUrl) -> Result<GatewayUrl, CliError> {
    match url.host().parse::<IpAddr>() {
        Ok(ip) if ip.is_unspecified() => {
            let (address, _) = banner::reachable(SocketAddr::new(ip, url.port()));
            at(address, url.is_tls())
        }
        _ => Ok(url),
    }
}

/// Where a browser on this machine reaches this machine's gateway.
fn own_address(around: &Surroundings) -> Result<GatewayUrl, CliError> {
    let (address, is_tls) = match around.running {
        Some(running) => (banner::reachable(running.address).0, running.is_tls),
        None => (around.local.address, around.local.is_tls),
    };
    at(address, is_tls)
}

fn at(address: SocketAddr, is_tls: bool) -> Result<GatewayUrl, CliError> {
    GatewayUrl::at(address, is_tls).map_err(|error| CliError::Usage(error.to_string()))
}
