//! `clawgate qr`: a code that sets up one phone.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use serde_json::json;

use super::super::client::GatewayUrl;
use super::super::{CliError, ConnectArgs, Screen, Surroundings};
use super::{Way, show, text};

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
    /// How to reach the gateway.
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Issues a code and prints it.
pub async fn run(args: QrArgs, around: &Surroundings, screen: &mut Screen) -> Result<u8, CliError> {
    let url = match &args.public_url {
        Some(url) => GatewayUrl::parse(url).map_err(|_| {
            CliError::Usage(
                "--public-url is no address of a gateway; write it like wss://gateway.example"
                    .into(),
            )
        })?,
        None => GatewayUrl::at(around.local.address, around.local.is_tls)
            .map_err(|error| CliError::Usage(error.to_string()))?,
    };
    if url.is_loopback() {
        return Err(CliError::Usage(
            "a phone does not reach 127.0.0.1: name the address that it uses with --public-url, or let the gateway listen on the network (gateway.bind)".into(),
        ));
    }
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
        format!(
            "Setup code: {code}\n\nGateway: {}\nIt is good for one device and ten minutes. Enter it in the app; the device is then paired.\n",
            text::of(&answer, "gatewayUrl"),
        )
    })
}
