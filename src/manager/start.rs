//! The start of a manager: from what its builder was given to the first elections.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::builder::{GivenRole, RoleManagerBuilder};
use super::patience::patiently;
use super::{Fleet, RoleManager};
use crate::access::Access;
use crate::actors::{ElectionThread, Groups, Routes, Supervise, SupervisorMsg};
use crate::error::Error;
use crate::group::Group;
use crate::last_will::Keeper;
use crate::limits;
use crate::model::config::{
    ConfigError, ElectionsConfig, Environment, GroupConfig, RoleConfig, TableOfName,
    table_overridden,
};
use crate::role::{ErasedHandler, Instance, RoleRegistry, RoleScope};
use crate::store::Bucket;
use nats_elect_core::application::Application;
use nats_elect_core::assignment::Map;
use nats_elect_core::duration::exact;
use nats_elect_core::name::{BucketName, InstanceId, RoleName};

/// The keys of groups in the format before a group was one map.
const OLD_GROUPS: &str = "_group.>";

impl RoleManagerBuilder {
    pub(super) async fn launch(self) -> Result<RoleManager, Error> {
        let mut access = self.access;
        access.settle()?;
        let (roles, groups) = resolved(
            self.roles,
            self.groups,
            &self.configured,
            &access.environment,
        )?;
        let config = access.config.clone();
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let bucket = BucketName::new(&config.bucket)?;
        let instance_id = match &config.instance_id {
            Some(id) => InstanceId::new(id)?,
            None => InstanceId::new(&default_instance_id())?,
        };
        let program = self.program.as_deref().map(Application::program);
        let application = config
            .application
            .as_deref()
            .map(Application::set)
            .or(program);
        let incarnation = Uuid::from_u128(rand::random());
        may_have_companion(&access)?;
        let connection = access.connection(instance_id.as_str()).await?;
        let routes = Routes::default();
        let registry = RoleRegistry::default();
        let instance = Arc::new(Instance {
            id: instance_id,
            incarnation,
            bucket,
            application: Arc::new(application.unwrap_or_else(this_application)),
            meta: config.meta.clone(),
        });
        let fleet = Fleet {
            runtime,
            instance: Arc::clone(&instance),
            routes: routes.clone(),
            registry: registry.clone(),
            keyring: self.keyring,
        };
        let scopes = fleet.scopes(roles)?;
        let groups = Arc::new(fleet.groups(groups, &config.member)?);
        crate::metrics::describe();
        // The companion watches before the first claim.
        let last_will = if config.last_will.enabled {
            let keeper = Keeper::start(&config, &instance, self.last_will_ends).await;
            Some(keeper.map_err(Error::LastWill)?)
        } else {
            None
        };

        let (ready, opened) = oneshot::channel();
        let thread = ElectionThread::start(Supervise {
            instance,
            connection,
            config: config.clone(),
            routes,
            registry,
            bequests: last_will.as_ref().map(Keeper::bequests),
            groups: Arc::clone(&groups),
            ready,
        })
        .await
        .map_err(|error| Error::Thread(limits::in_words(&error)))?;
        // From here on dropping the manager ends the thread.
        let manager = RoleManager {
            fleet,
            groups,
            thread,
            last_will,
        };
        let died = |_| Error::Thread("it died while connecting".into());
        let (bucket, info) = opened.await.map_err(died)??;
        let application = &manager.fleet.instance.application;
        refuse_others(&bucket, application, &scopes, config.start_timeout).await?;
        refuse_old_groups(&bucket, &manager.groups, config.start_timeout).await?;
        require_lasting_keys(&config.bucket, info.max_age, &scopes, &manager.groups)?;
        require_room_for_maps(&bucket, &manager.groups)?;
        warn_of_settings(&scopes, info.replicas);
        log_start(&manager.fleet.instance, &bucket, info.replicas, &scopes);
        for scope in scopes {
            manager.stand(scope).await?;
        }
        let supervisor = &manager.thread.supervisor;
        let _ = supervisor.send_message(SupervisorMsg::JoinGroups);
        Ok(manager)
    }
}

fn warn_of_settings(scopes: &[Arc<RoleScope>], replicas: usize) {
    for scope in scopes {
        for warning in scope.settings.warnings(replicas) {
            tracing::warn!(role = %scope.role, "{warning}");
        }
    }
}

/// Checks that the bucket keeps what an instance relies on.
fn require_lasting_keys(
    bucket: &str,
    max_age: Option<Duration>,
    scopes: &[Arc<RoleScope>],
    groups: &Groups,
) -> Result<(), Error> {
    let Some(max_age) = max_age else {
        return Ok(());
    };
    if let Some(scope) = scopes.iter().find(|scope| max_age < scope.settings.ttl) {
        return Err(Error::BucketUnfit(format!(
            "bucket {bucket:?} drops keys after {}, before the lease of role `{}` ends ({}): choose a shorter ttl, or a longer max age",
            exact(max_age),
            scope.role,
            exact(scope.settings.ttl)
        )));
    }
    if let Some(group) = groups.keys().next() {
        return Err(Error::BucketUnfit(format!(
            "bucket {bucket:?} drops keys after {}, and group `{group}` writes its map only when it changes: use a bucket without a max age (`nats stream edit KV_{bucket} --max-age 0s`)",
            exact(max_age)
        )));
    }
    Ok(())
}

/// Checks that the bucket takes the maps of groups with two members, as far as the settings know them.
fn require_room_for_maps(bucket: &Bucket, groups: &Groups) -> Result<(), Error> {
    for (name, scope) in groups {
        let units = scope.units.count();
        if let Some(misfit) = bucket.misfit(Map::most_bytes(scope.units.clone(), 2)) {
            return Err(Error::BucketUnfit(format!(
                "a map of group `{name}` with {units} units {misfit} have fewer units"
            )));
        }
    }
    Ok(())
}

/// Refuses a role that another application has led, if somebody set the names of both.
async fn refuse_others(
    bucket: &Bucket,
    own: &Application,
    scopes: &[Arc<RoleScope>],
    within: Duration,
) -> Result<(), Error> {
    if !own.is_set {
        return Ok(());
    }
    let look = |role: RoleName| async move {
        let _turn = bucket.turn_to_read().await.ok()?;
        // Who can't read it now warns of it later.
        let record = bucket.leader_record(&role, within).await.ok()??;
        let other = record.application.filter(|it| it.contradicts(own))?;
        Some(Error::OtherApplication {
            role: role.to_string(),
            bucket: bucket.name().to_string(),
            own: own.name.clone(),
            other: other.name,
            instance_id: record.id,
        })
    };
    let looks = scopes.iter().map(|scope| look(scope.role.clone()));
    let mut looks: FuturesUnordered<_> = looks.collect();
    let found = async { looks.by_ref().filter_map(std::future::ready).next().await };
    // The reads take turns, so the time is that of all of them.
    let found = tokio::time::timeout(within, found).await;
    found.ok().flatten().map_or(Ok(()), Err)
}

/// Refuses to take part in groups where keys of another protocol are. Instances that follow that one
/// may run yet, so that a unit could have two owners.
async fn refuse_old_groups(
    bucket: &Bucket,
    groups: &Groups,
    within: Duration,
) -> Result<(), Error> {
    if groups.is_empty() {
        return Ok(());
    }
    let found = patiently(within, |left| bucket.first_of(OLD_GROUPS, left)).await;
    let Some(key) = found.map_err(|error| Error::of_reading(error, within))? else {
        return Ok(());
    };
    let name = bucket.name();
    Err(Error::BucketUnfit(format!(
        "bucket {name:?} has keys of groups in a former format, such as `{key}`: stop all instances of the \
         version that wrote them, remove these keys (`nats stream purge KV_{name} --subject \
         '$KV.{name}.{OLD_GROUPS}'`), and start again (docs/operations.md)"
    )))
}

/// The name of the program's file.
fn this_application() -> Application {
    let file = std::env::current_exe().ok();
    let name = file.as_deref().and_then(Path::file_name);
    let name = name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    // Linux marks the file of a program that was replaced meanwhile.
    let name = name.strip_suffix(" (deleted)").unwrap_or(&name);
    Application::program(name.strip_suffix(".exe").unwrap_or(name))
}

/// Logs what an instance that has started uses.
fn log_start(instance: &Instance, bucket: &Bucket, replicas: usize, scopes: &[Arc<RoleScope>]) {
    let roles: Vec<_> = scopes.iter().map(|scope| scope.role.as_str()).collect();
    instance.span().in_scope(|| {
        tracing::info!(
            server = bucket.server(),
            version = bucket.server_version(),
            replicas,
            roles = roles.join(", "),
            "connected to NATS: started"
        );
    });
}

/// A companion connects by the configuration, and by nothing else.
fn may_have_companion(access: &Access) -> Result<(), Error> {
    if access.config.last_will.enabled && access.is_foreign() {
        let why = "it connects by the configuration, so it can't be used with `client` or `connect_options`";
        return Err(Error::LastWill(why.into()));
    }
    Ok(())
}

/// Logs the variables that have no effect, and refuses those that name two roles or two groups.
fn warn_of_unused(
    environment: &Environment,
    roles: &[GivenRole],
    groups: &[Group],
) -> Result<(), ConfigError> {
    let roles: Vec<_> = roles.iter().map(|(name, ..)| name.as_str()).collect();
    let groups: Vec<_> = groups.iter().map(|group| group.name.as_str()).collect();
    let mut others = environment.of_others::<RoleConfig>(&roles)?;
    others.extend(environment.of_others::<GroupConfig>(&groups)?);
    for variable in others {
        tracing::warn!(
            variable,
            "no role or group of this manager has the name in this variable: it has no effect"
        );
    }
    for unknown in environment.unknown() {
        tracing::warn!("{unknown}");
    }
    Ok(())
}

type Role = (String, RoleConfig, Arc<dyn ErasedHandler>);

/// Returns roles and groups with their settings: those of the environment override the others.
fn resolved(
    roles: Vec<GivenRole>,
    mut groups: Vec<Group>,
    configured: &ElectionsConfig,
    environment: &Environment,
) -> Result<(Vec<Role>, Vec<Group>), ConfigError> {
    warn_of_unused(environment, &roles, &groups)?;
    let roles = roles.into_iter().map(|(name, given, handler)| {
        let config = match given {
            Some(config) => *config,
            None => configured_under(&name, &configured.roles)?,
        };
        let (config, _) = table_overridden(&name, config, environment)?;
        Ok((name, config, handler))
    });
    for group in &mut groups {
        let mut config = std::mem::take(&mut group.config);
        if group.is_configured {
            config = configured_under(&group.name, &configured.groups)?.over(config);
        }
        (group.config, _) = table_overridden(&group.name, config, environment)?;
    }
    Ok((roles.collect::<Result<_, ConfigError>>()?, groups))
}

/// Returns the settings of a role or a group that the configuration has under its name.
fn configured_under<T: TableOfName + Clone>(
    name: &str,
    configured: &BTreeMap<String, T>,
) -> Result<T, ConfigError> {
    configured.get(name).cloned().ok_or_else(|| {
        let of = T::OF;
        let rule =
            format!("`configured_{of}` needs it: add the table, an empty one for the defaults");
        ConfigError::new(format!("{of}s.{name}"), "missing", rule)
    })
}

/// Returns the host name, the process id and a short random part.
fn default_instance_id() -> String {
    let short: u16 = rand::random();
    format!("{}-{}-{short:04x}", host_name(), std::process::id())
}

#[cfg(unix)]
fn host_name() -> String {
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let name: String = name
        .chars()
        .filter(|c| !c.is_whitespace() && !c.is_control())
        .take(200)
        .collect();
    if name.is_empty() { "host".into() } else { name }
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "host".into())
}
