//! Hello-ok, and what a connection is from then on.

use std::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};

use crate::auth::{Admission, Auth, DeviceGrant, Peer, Principal};
use crate::bus::{Beacon, EventKind, Subscriber};
use crate::nodes::Joining;
use crate::protocol::connect::{Connect, StandardConnect};
use crate::protocol::hello::{
    Features, Granted, GrantedToken, HelloOk, Policy, ServerInfo, SessionDefaults, Snapshot,
};
use crate::protocol::{Profile, Role, Scope, Version, is_dashboard, response_of};
use crate::registry::{Caller, KeyNames};
use crate::sessions::SessionKey;
use crate::store::NodeFacts;
use crate::support::json;
use crate::telemetry::metrics::OpenConnection;

use super::footing::Footing;
use super::leave::Leave;
use super::render::View;
use super::socket::Socket;
use super::upgrade::Gateway;

/// A connection that was let in.
pub struct Welcome {
    /// Who it is.
    pub caller: Caller,
    /// How it wants its events.
    pub view: View,
    /// What takes it out of the lists at its end.
    pub leave: Leave,
}

/// Who comes in, and how it wants to speak.
pub struct Decision {
    /// What it has asked for.
    pub connect: Connect,
    /// How it speaks.
    pub profile: Profile,
    /// What it is let in with.
    pub admission: Admission,
    /// By which rules.
    pub auth: Arc<Auth>,
}

/// A connection that comes in.
pub struct Guest<'a> {
    /// Where it comes in.
    pub gateway: &'a Arc<Gateway>,
    /// From where.
    pub peer: &'a Peer,
    /// Its id.
    pub conn_id: Arc<str>,
}

impl Guest<'_> {
    /// Takes it into the lists and says hello; `None` when it has gone meanwhile. One that is
    /// let in no more hears the close alone.
    pub async fn welcome(
        &self,
        socket: &mut Socket,
        id: &str,
        decision: Decision,
    ) -> Option<Welcome> {
        let Decision { connect, profile, admission, auth } = decision;
        let services = &self.gateway.services;
        let principal = Arc::new(admission.principal);
        let (caps, user_agent) = match &connect {
            Connect::Standard(connect) => {
                (connect.caps.clone(), connect.user_agent.clone().unwrap_or_default())
            }
            // The simple chat API shows tool events to everybody.
            Connect::Simple(_) => (vec!["tool-events".to_owned()], String::new()),
        };
        let device_id = admission.device_id.as_deref();
        let presence_key =
            self.announce(&connect, device_id, principal.role(), &admission.scope_names);
        let conn_id = Arc::clone(&self.conn_id);
        let open = OpenConnection::new(principal.role().as_str(), profile.dialect());
        let leave = Leave::new(Arc::clone(self.gateway), conn_id, presence_key, open);
        let key_names = Arc::new(KeyNames::default());
        let subscriber =
            Arc::new(Subscriber::new(Arc::clone(&self.conn_id), Arc::clone(&principal), &caps));
        // Joined before the snapshot is taken: what happens in between comes
        // as an event after hello, so nothing falls through (#116043).
        self.gateway.door.join(&subscriber);
        // After that, so that whoever asks the node for something reaches it.
        if principal.role() == Role::Node
            && let (Connect::Standard(connect), Some(node_id)) = (&connect, &admission.device_id)
        {
            let joining = self.joining(connect, node_id, admission.granted.is_some());
            services.nodes.join(joining).await;
        }
        let standing = admission.granted.as_ref().map(|granted| granted.standing.clone());
        Footing::new(auth, standing).look_again(self.gateway, &subscriber).await;
        let granted = granted(principal.role(), admission.scope_names, admission.granted);
        if !self.greet(socket, id, &subscriber, (profile, granted)).await {
            return None;
        }
        // Who is let in no more is to hear the close at once.
        if !subscriber.outbox.is_cut() {
            tracing::info!(conn = %self.conn_id, role = principal.role().as_str(), ?profile, "connected");
            services.health.refresh_soon();
            if principal.role() == Role::Node {
                services.voice.greet(&subscriber).await;
            }
        }
        let view = View::new(profile, &user_agent, Arc::clone(&key_names));
        let is_dashboard = is_dashboard(&user_agent);
        let name = called(&connect);
        let is_near = self.peer.is_local();
        let caller = Caller {
            principal,
            profile,
            client_id: client_id(&connect),
            subscriber,
            person: None,
            name,
            place: (!is_near).then(|| self.gateway.auth.now().place_of(self.peer)),
            is_webchat: is_webchat(&connect),
            is_dashboard,
            is_retrying: true,
            key_names,
        };
        Some(Welcome { caller, view, leave })
    }

    /// Says hello; `false` when the client has gone meanwhile. To who is let in no more it
    /// says nothing: whoever serves the connection finds the close in the outbox.
    async fn greet(
        &self,
        socket: &mut Socket,
        id: &str,
        subscriber: &Subscriber,
        (profile, granted): (Profile, Granted),
    ) -> bool {
        if subscriber.outbox.is_cut() {
            return true;
        }
        let hello = self.hello(profile, &subscriber.principal, granted);
        match response_of(id, &hello, hello.space()) {
            Ok(frame) => subscriber.outbox.unless_cut(socket.send(frame)).await.unwrap_or(true),
            Err(error) => {
                tracing::error!(%error, "hello could not be written");
                false
            }
        }
    }

    /// A node that comes in, in its own words.
    fn joining(&self, connect: &StandardConnect, node_id: &str, is_paired: bool) -> Joining {
        let (client, offers) = (connect.client.clone(), connect.offers.clone());
        let is_near = self.peer.is_local();
        let remote_ip =
            (!is_near).then(|| self.gateway.auth.now().client_ip(self.peer).to_string());
        Joining {
            node_id: node_id.to_owned(),
            conn_id: Arc::clone(&self.conn_id),
            is_paired,
            facts: NodeFacts {
                display_name: client.display_name,
                platform: Some(client.platform),
                version: Some(client.version),
                client_id: Some(client.id),
                client_mode: Some(client.mode),
                device_family: client.device_family,
                model_identifier: client.model_identifier,
                caps: Some(connect.caps.clone()),
                commands: Some(offers.commands),
                remote_ip,
                ..NodeFacts::default()
            },
            permissions: offers.permissions,
            path_env: offers.path_env,
        }
    }

    /// Puts it into the list of who is there, unless it speaks the simple way; answers under
    /// which key.
    fn announce(
        &self,
        connect: &Connect,
        device_id: Option<&str>,
        role: Role,
        scope_names: &[String],
    ) -> Option<String> {
        let Connect::Standard(connect) = connect else { return None };
        // A device's names are normalised for hello; the list shows what it asked for.
        let scopes = if device_id.is_some() { connect.scopes.as_slice() } else { scope_names };
        let beacon = Beacon::of_client(&connect.client, device_id, role.as_str(), scopes)?;
        let ip = self.gateway.auth.now().remote_ip(self.peer);
        let beacon = Beacon { ip: ip.map(|ip| ip.to_string()), ..beacon };
        let services = &self.gateway.services;
        let key = beacon.instance_id.clone().unwrap_or_else(|| self.conn_id.to_string());
        services.presence.arrive(&key, beacon, services.clock.now_ms());
        Some(key)
    }

    fn hello(&self, profile: Profile, principal: &Principal, auth: Granted) -> HelloOk<'_> {
        let services = &self.gateway.services;
        let settings = &services.settings.now();
        let (presence, state_version) = services.presence.snapshot(services.clock.now_ms());
        let keys = &services.keys.now();
        let is_admin = principal.allows(Scope::Admin);
        let shown = |path: &std::path::Path| is_admin.then(|| path.display().to_string());
        let mut methods = services.registry.names_for(principal);
        methods.retain(|method| services.repair.as_ref().is_none_or(|it| it.serves(method)));
        let is_v4 = profile == Profile::Standard(Version::V4);
        HelloOk {
            kind: "hello-ok",
            protocol: profile.protocol_number(),
            server: ServerInfo { version: crate::handlers::SERVER_VERSION, conn_id: &self.conn_id },
            features: Features { methods, events: EventKind::names_for(principal) },
            snapshot: Snapshot {
                presence,
                health: services.health.last().map_or_else(empty_object, |it| Box::clone(&it)),
                state_version,
                uptime_ms: services.uptime_ms(),
                session_defaults: SessionDefaults {
                    default_agent_id: keys.default_agent.to_string(),
                    main_key: keys.main_key.clone(),
                    main_session_key: SessionKey::main(&keys.default_agent, keys).to_string(),
                    scope: settings.session.scope.as_str(),
                },
                config_path: shown(&settings.paths.config_path),
                state_dir: shown(&settings.paths.state_dir),
                auth_mode: is_admin.then(|| self.gateway.auth.now().mode().as_str()),
            },
            plugin_surface_urls: is_v4.then(|| json!({})),
            auth,
            policy: Policy::default(),
        }
    }
}

/// Which program it says that it is.
fn client_id(connect: &Connect) -> Arc<str> {
    match connect {
        Connect::Standard(connect) => connect.client.id.as_str().into(),
        Connect::Simple(connect) => connect.client_type.as_deref().unwrap_or("simple").into(),
    }
}

/// Whether it is a chat in a page, and not the control UI.
fn is_webchat(connect: &Connect) -> bool {
    matches!(connect, Connect::Standard(connect)
        if connect.client.mode == "webchat" && connect.client.id != "openclaw-control-ui")
}

/// What a client calls itself.
fn called(connect: &Connect) -> Arc<str> {
    match connect {
        Connect::Standard(connect) => {
            let client = &connect.client;
            client.display_name.as_ref().unwrap_or(&client.id).as_str().into()
        }
        Connect::Simple(connect) => connect.client_type.as_deref().unwrap_or("client").into(),
    }
}

/// `auth` of hello-ok.
fn granted(role: Role, scopes: Vec<String>, device: Option<DeviceGrant>) -> Granted {
    let (own, others) = match device {
        Some(DeviceGrant { token, issued_at_ms, others, .. }) => {
            (token.map(|token| (token.expose().to_owned(), issued_at_ms)), others)
        }
        None => (None, Vec::new()),
    };
    let (device_token, issued_at_ms) = own.unzip();
    let others = others.into_iter().map(|(role, token, scopes, issued_at_ms)| GrantedToken {
        device_token: token.expose().to_owned(),
        role,
        scopes,
        issued_at_ms,
    });
    Granted { role, scopes, device_token, issued_at_ms, device_tokens: others.collect() }
}

fn empty_object() -> Box<RawValue> {
    to_raw_value(&json!({})).unwrap_or_else(|_| Box::<RawValue>::default())
}
