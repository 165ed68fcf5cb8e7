//! A configuration that is looked at before anything uses it.

use super::changes;
use crate::agent::Models;
use crate::app::{AppError, listen};
use crate::config::document::ConfigIssue;
use crate::config::{self, ConfigError, Env, Overrides, Settings};
use crate::providers::MissingModel;
use crate::registry::Services;
use crate::support::{self, Unfinished};

/// The sections that decide which models there are.
const OF_MODELS: [&str; 5] = ["models", "auth", "secrets", "agents", "env"];

/// A configuration that a gateway works with.
pub(super) struct News {
    /// All of it.
    pub settings: Settings,
    /// Its models, where they are not those of before.
    pub models: Option<Models>,
}

impl News {
    /// That of a text of the file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn of_text(
        text: String,
        services: &Services,
        env: &Env,
        overrides: &Overrides,
    ) -> Result<Self, ConfigIssue> {
        let (around, given) = (env.clone(), overrides.clone());
        let settings = blocking(move || config::load_text(&text, &around, &given)).await?;
        let news = Self::of(settings, services, env, (None, false)).await?;
        news.begun_in_vain(services).map_or(Ok(news), |missing| Err(missing.into()))
    }

    /// A model that there is not, and that was not named there before. Whoever mends a file
    /// may do it step by step.
    fn begun_in_vain(&self, services: &Services) -> Option<MissingModel> {
        let models = self.models.as_ref().filter(|_| services.repair.is_none())?;
        MissingModel::begun(models.missing(), &services.models.missing())
    }

    /// That of the file. What programs have told for the text that was `checked` before it
    /// was written is not asked for again; `restarts` when a gateway has to begin with it.
    ///
    /// # Errors
    /// What is wrong with it, also that it is gone.
    pub async fn of_file(
        services: &Services,
        env: &Env,
        (overrides, restarts): (&Overrides, bool),
        checked: Option<&Settings>,
    ) -> Result<Self, ConfigIssue> {
        let (around, given) = (env.clone(), overrides.clone());
        let settings = blocking(move || config::load(&around, &given)).await?;
        let was_there = services.repair.is_none() && services.settings.now().file.exists;
        if was_there && !settings.file.exists {
            let path = settings.file.path.display();
            let message = format!("{path} is gone; put it back, or restart to go on without it");
            return Err(ConfigIssue { path: String::new(), message });
        }
        Self::of(settings, services, env, (checked, restarts)).await
    }

    async fn of(
        mut settings: Settings,
        services: &Services,
        env: &Env,
        (checked, restarts): (Option<&Settings>, bool),
    ) -> Result<Self, ConfigIssue> {
        let before = services.settings.now();
        // `/dev/null` in the place of a file, which a gateway starts with.
        if services.repair.is_none() && settings.file.is_blank && !before.file.is_blank {
            let path = settings.file.path.clone();
            return Err(ConfigIssue::from(&ConfigError::Blank { path }));
        }
        let env = &settings.environment(env);
        // The same text means something else with another `.env`.
        let is_filled_anew = settings.has_other_dotenv(&before);
        let asks_alike = |other: &&Settings| {
            settings.secrets == other.secrets
                && settings.raw.get("env") == other.raw.get("env")
                && !settings.has_other_dotenv(other)
        };
        // Programs that are asked as before are asked again by `secrets.reload`:
        // whoever keeps these settings and whoever kept those hears the answer. A gateway
        // that begins asks them itself.
        let known = [Some(&*before), checked].into_iter().flatten();
        let alike = known.filter(|_| !restarts).find(asks_alike);
        if let Some(secrets) = alike.map(|other| other.secrets.clone()) {
            settings.secrets = secrets;
        }
        let followed = settings.gateway.auth.follow(&settings.secrets, env).await;
        followed.map_err(|lost| AppError::lost(lost).issue())?;
        settings.hooks.follow(&settings.secrets, env, &settings.gateway.auth).await;
        settings.cron.follow(&settings.secrets, env).await;
        let begins_anew = restarts || services.repair.is_some();
        if begins_anew || changes::need_restart(&before, &settings) {
            let checked = listen::check_tls(&settings, Some(&*before)).await;
            checked.map_err(|error| error.issue())?;
        }
        listen::check(&settings, &before).map_err(|error| error.issue())?;
        let differs = |name: &&str| before.raw.get(name) != settings.raw.get(name);
        let mut models = None;
        if begins_anew || is_filled_anew || OF_MODELS.iter().any(differs) {
            let failover = crate::app::models(&settings, env, &services.clock).await;
            let failover = failover.map_err(|error| error.issue())?;
            models = Some(Models::new(failover, services.keys.clone(), &settings.agents));
        }
        Ok(Self { settings, models })
    }
}

/// Reads what may be on a slow disk.
async fn blocking(
    work: impl FnOnce() -> Result<Settings, ConfigError> + Send + 'static,
) -> Result<Settings, ConfigIssue> {
    let unfinished = |it: Unfinished| ConfigIssue { path: String::new(), message: it.to_string() };
    let loaded = support::blocking(work).await.map_err(unfinished)?;
    loaded.map_err(|error| ConfigIssue::from(&error))
}
