//! `clawgate qr`: a code that sets up one phone.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};

use super::super::client::GatewayUrl;
use super::super::{CliError, ConnectArgs, Screen, Surroundings};
use super::{Way, show, text};
use crate::support::{json, route_to};

/// Not on this machine (RFC 5737): the address towards it is the one in the network.
const ELSEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// Arguments of `clawgate qr`.
#[derive(Debug, Args)]
pub struct QrArgs {
    /// Address at which the phone reaches the gateway.
    #[arg(
        long,
        value_name = "URL",
        help = "Address at which the phone reaches the gateway, such as wss://gateway.example [default: the one it listens at]"
    )]
    public_url: Option<String>,
    /// Print the code and nothing else
    #[arg(long)]
    setup_code_only: bool,
    /// Leave the picture out
    #[arg(long)]
    no_ascii: bool,
    /// How to reach the gateway.
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Issues a code and prints it.
pub async fn run(args: QrArgs, around: &Surroundings, screen: &mut Screen) -> Result<u8, CliError> {
    let url = address(&args, around)?;
    let mut way = Way::find(&args.connect, around).await?;
    let issued = way.request("device.pair.setupCode", json!({})).await?;
    let payload = json!({"url": url.to_string(), "bootstrapToken": issued["bootstrapToken"]});
    let code = URL_SAFE_NO_PAD.encode(payload.to_string());
    let answer = json!({
        "setupCode": code,
        "gatewayUrl": url.to_string(),
        "expiresAtMs": issued["expiresAtMs"],
        "roles": issued["roles"],
        "scopes": issued["scopes"],
    });
    show(screen, &args.connect, &answer, || {
        if args.setup_code_only {
            return format!("{code}\n");
        }
        let picture = if args.no_ascii { None } else { picture(&code) };
        let (picture, how) = picture.map_or_else(
            || (String::new(), "Enter"),
            |picture| (format!("{picture}\n\n"), "Scan or enter"),
        );
        format!(
            "{picture}Setup code: {code}\n\nGateway: {}\nIt is good for one device and ten minutes. {how} it in the app; the device is then paired.\n",
            text::of(&answer, "gatewayUrl"),
        )
    })
}

/// The code for a camera, a line of letters for two rows: what is light in it is a block,
/// as most terminals write light on dark. `None` when it is too long for one.
fn picture(code: &str) -> Option<String> {
    let code = QrCode::with_error_correction_level(code, EcLevel::L).ok()?;
    let (light, dark) = (Dense1x2::Dark, Dense1x2::Light);
    Some(code.render::<Dense1x2>().dark_color(dark).light_color(light).build())
}

/// Where the phone reaches the gateway that issues the code.
fn address(args: &QrArgs, around: &Surroundings) -> Result<GatewayUrl, CliError> {
    let url = match &args.public_url {
        Some(url) => GatewayUrl::parse(url).map_err(|_| {
            CliError::Usage(
                "--public-url is no address of a gateway; write it like wss://gateway.example"
                    .into(),
            )
        })?,
        None => args.connect.target(around)?.url,
    };
    let is_any = url.host().parse().is_ok_and(|ip: IpAddr| ip.is_unspecified());
    if !url.is_loopback() && !is_any {
        return Ok(url);
    }
    let is_own = args.public_url.is_none()
        && around.running.is_some_and(|own| own.address.port() == url.port());
    if !is_own || !around.is_on_every_address {
        return Err(CliError::Usage(format!(
            "a phone does not reach {}: name the address that it uses with --public-url, or let the gateway listen on the network (gateway.bind)",
            url.host()
        )));
    }
    let ip = route_to(ELSEWHERE).ok_or_else(|| {
        CliError::Usage(
            "this machine is in no network; name the address that the phone uses with --public-url"
                .into(),
        )
    })?;
    GatewayUrl::at(SocketAddr::new(ip, url.port()), url.is_tls())
        .map_err(|error| CliError::Usage(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Env;
    use crate::store::instance::Running;
    use crate::support::Secret;

    fn shown(url: Option<&str>, is_on_every_address: bool) -> Result<String, CliError> {
        let token = url.map(|_| Secret::new("t"));
        let connect = ConnectArgs { url: url.map(str::to_owned), token, ..ConnectArgs::default() };
        let args = QrArgs { public_url: None, setup_code_only: false, no_ascii: false, connect };
        let here = "127.0.0.1:19001".parse().unwrap();
        let running = Running { is_tls: true, ..Running::at(here) };
        let mut around = Surroundings::find(Env::fixed([], "/nowhere"), &mut Screen::silent());
        around.running = Some(running);
        (around.local.address, around.local.is_tls) = (running.address, running.is_tls);
        around.is_on_every_address = is_on_every_address;
        address(&args, &around).map(|url| url.to_string())
    }

    #[test]
    fn the_code_names_an_address_at_which_a_phone_reaches_that_gateway() {
        let there = shown(Some("wss://gw.example"), true).unwrap();
        assert_eq!(there, "wss://gw.example");
        for (url, is_on_every_address) in
            [(None, false), (Some("ws://127.0.0.1:5"), true), (Some("ws://0.0.0.0:5"), false)]
        {
            let error = shown(url, is_on_every_address).unwrap_err().to_string();
            assert!(error.contains("gateway.bind"), "{error}");
        }
        match route_to(ELSEWHERE) {
            Some(ip) => {
                let expected = format!("wss://{}", SocketAddr::new(ip, 19001));
                assert_eq!(shown(None, true).unwrap(), expected);
            }
            None => assert!(shown(None, true).unwrap_err().to_string().contains("no network")),
        }
    }
}
