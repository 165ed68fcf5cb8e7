//! A `connect` of the simple profile.
//!
//! Promises: a proof of a device is checked like any other, and takes nothing
//! away from whoever knows the secret; what is said without a proof or a secret
//! is worth nothing.

use crate::config::AuthMode;
use crate::protocol::connect::{
    ClientInfo, DeviceProof, NodeOffers, SimpleConnect, StandardConnect,
};
use crate::protocol::{ErrorShape, Role};

use super::admission::{Admission, Auth, Refusal, admission};
use super::arrival::is_own_place;
use super::device::{self, ProofError};
use super::pairing::{Known, covers};
use super::peer::Peer;
use super::principal::Owner;

/// What a client is called that does not say it.
const UNNAMED: &str = "simple";
/// Characters of the name of a client that has a device.
const MAX_NAME: usize = 64;
/// The mode that such clients are in, also in what their devices sign.
const MODE: &str = "webchat";

impl Auth {
    /// Decides about a connect of the simple profile.
    pub async fn admit_simple(
        &self,
        connect: &SimpleConnect,
        peer: &Peer,
        conn_id: &str,
        nonce: &str,
        now_ms: u64,
    ) -> Result<Admission, Refusal> {
        if peer.origin.is_some() || peer.is_cross_site {
            self.check_origin(peer)?;
        }
        let is_stranger = !peer.is_local() && peer.voucher().is_none();
        if self.settings.mode == AuthMode::None && is_stranger {
            return Err(ErrorShape::denied(
                "unauthorized: auth mode none serves direct loopback connections only (set gateway.auth.mode to token)",
            ));
        }
        let Some(proof) = &connect.device else {
            self.check_secret(&connect.auth, None, peer).await?;
            let owner = Owner::Connection(conn_id.to_owned());
            return Ok(self.logged_in(self.worth_of_secret(owner), peer));
        };
        let known = self.pairing.known(&proof.id, Role::Operator, now_ms).await?;
        let (proof, mut asked) = prove(connect, proof, known.as_ref(), nonce, now_ms)?;
        let all = self.settings.shared_secret_scopes;
        asked.scopes = all.iter().map(|scope| scope.as_str().to_owned()).collect();
        let has_token = asked.auth.device_token.is_some();
        let gives_secret = asked.auth.token.is_some() || asked.auth.password.is_some();
        let comes_as_device = match known {
            // It names no scopes and no system, so it asks for what it has.
            Some(known) if has_token => {
                asked.scopes.retain(|scope| covers(&known.scopes, scope));
                asked.client.platform = known.platform.unwrap_or_default();
                asked.client.device_family = known.device_family;
                true
            }
            Some(_) => false,
            // A token of earlier takes nothing away from the secret beside it.
            None => is_own_place(&asked, peer) || (has_token && !gives_secret),
        };
        if comes_as_device {
            return self.admit_device(&asked, &proof, Role::Operator, peer, now_ms).await;
        }
        self.check_secret(&asked.auth, None, peer).await?;
        Ok(self.logged_in(self.worth_of_secret(Owner::Device(proof.id)), peer))
    }

    /// What the secret alone is worth in this profile.
    fn worth_of_secret(&self, owner: Owner) -> Admission {
        let scopes = self.settings.shared_secret_scopes;
        let names: Vec<_> = scopes.iter().map(|scope| scope.as_str().to_owned()).collect();
        admission(Role::Operator, &names, owner)
    }
}

/// Checks the proof of a device; that proof, with the key, and the connect that
/// it stands for.
fn prove(
    connect: &SimpleConnect,
    proof: &DeviceProof,
    known: Option<&Known>,
    nonce: &str,
    now_ms: u64,
) -> Result<(DeviceProof, StandardConnect), Refusal> {
    let mut proof = proof.clone();
    if let Some(known) = known.filter(|_| proof.public_key.is_empty()) {
        proof.public_key.clone_from(&known.public_key);
    }
    // What is signed is the nonce of this connection, told again or not.
    if proof.nonce.is_empty() {
        nonce.clone_into(&mut proof.nonce);
    }
    let id = connect.client_type.as_deref().filter(|id| !id.is_empty()).unwrap_or(UNNAMED);
    // People read it in lists of devices.
    if id.len() > MAX_NAME || id.chars().any(|it| !it.is_ascii_graphic()) {
        return Err(ErrorShape::invalid(format!(
            "invalid connect params: at /clientType: must be at most {MAX_NAME} letters, digits and signs"
        )));
    }
    let standard = StandardConnect {
        min_protocol: 0,
        max_protocol: 0,
        client: ClientInfo {
            id: id.to_owned(),
            display_name: None,
            version: connect.client_version.clone().unwrap_or_default(),
            platform: id.to_owned(),
            device_family: None,
            model_identifier: None,
            mode: MODE.to_owned(),
            instance_id: None,
        },
        caps: Vec::new(),
        offers: NodeOffers::default(),
        role: None,
        scopes: Vec::new(),
        device: None,
        auth: connect.auth.clone(),
        user_agent: None,
    };
    device::verify(&proof, &standard, Role::Operator.as_str(), nonce, now_ms)
        .map_err(ProofError::to_error)?;
    Ok((proof, standard))
}
