//! The options of commands that run an instance.

use std::path::PathBuf;

use clap::Args;
use nats_elect::{ElectionsConfig, ManagerConfig};

use crate::config_file::ConfigFile;
use crate::exit::Failure;
use crate::options::Shared;

/// What an instance of `exec` or `agent` is.
#[derive(Debug, Args)]
pub struct InstanceOptions {
    /// A file with the settings. Options and environment variables override it
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The table of --config that has the settings, such as app.elect [default: the whole file]
    #[arg(long, value_name = "TABLE", requires = "config")]
    table: Option<String>,

    /// The name of this instance [default: host name, process id and a random part]
    #[arg(long, value_name = "NAME")]
    id: Option<String>,

    /// Create the bucket if it does not exist
    #[arg(long)]
    create_bucket: bool,
}

impl InstanceOptions {
    /// What to connect by, and what the file says.
    pub fn read(
        &self,
        shared: &Shared,
    ) -> Result<(ManagerConfig, Option<ElectionsConfig>), Failure> {
        let file = ConfigFile::read(self.config.as_deref(), self.table.as_deref())?;
        let mut manager = shared.over_file(file.as_ref())?;
        if self.id.is_some() {
            manager.instance_id.clone_from(&self.id);
        }
        manager.bucket_auto_create |= self.create_bucket;
        Ok((manager, file.map(|file| file.config)))
    }
}
