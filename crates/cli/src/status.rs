//! `status`: shows one application on a screen, or a table of all applications.

mod groups;
mod lookup;
mod page;
mod problems;
mod state;

use kube::ResourceExt;
use world::{ApplicationKey, Objects};

use self::lookup::ClusterLookup;
use self::state::ApplicationStatus;
use crate::access::{AccessibleObjects, applications};
use crate::args::{Output, StatusArgs};
use crate::error::CliError;
use crate::style::{Style, Tone};
use crate::{Outcome, cluster, plan, print, read};

/// Runs the command.
pub fn run(args: &StatusArgs) -> Result<Outcome, CliError> {
    let accessible = if args.files.is_empty() {
        let prefix =
            args.name.as_deref().and_then(|name| name.split_once('/')).map(|(namespace, _)| namespace);
        applications(&args.cluster, prefix.or(args.namespace.as_deref()))?
    } else {
        AccessibleObjects { objects: read::dump(&args.files)?, ..AccessibleObjects::default() }
    };
    if let Some(why) = accessible.first_error(&["actorapplications"]) {
        return Err(CliError::Usage(why));
    }
    let AccessibleObjects { objects, .. } = &accessible;
    let lookup = ClusterLookup::of(objects);
    let style = Style::of_stdout();
    let (shown, text) = match &args.name {
        None => {
            let shown: Vec<ApplicationStatus> = (objects.applications.iter())
                .filter(|found| args.namespace.is_none() || found.namespace() == args.namespace)
                .map(|found| ApplicationStatus::of(found, &lookup))
                .collect();
            let text = match args.output {
                Output::Table => page::overview(&shown, args.namespace.as_deref(), style),
                Output::Yaml => plan::yaml(&shown),
                Output::Json => plan::json(&shown),
            };
            (shown, text)
        }
        Some(name) => {
            let connection = args.files.is_empty().then_some(&args.cluster);
            let key = cluster::application_key(name, args.namespace.as_deref(), connection)?;
            let found = objects.applications.iter().find(|found| ApplicationKey::of(found) == key);
            let status = ApplicationStatus::of(found.ok_or_else(|| not_found(&key, objects))?, &lookup);
            let text = match args.output {
                Output::Table => page::screen(&status, args.all, style),
                Output::Yaml => plan::yaml(&status),
                Output::Json => plan::json(&status),
            };
            (vec![status], text)
        }
    };
    print(&text)?;
    let inaccessible = accessible.describe_inaccessible();
    if matches!(args.output, Output::Table) && !inaccessible.is_empty() {
        let lines: Vec<String> =
            inaccessible.iter().map(|note| style.paint(Tone::Faint, note) + "\n").collect();
        print(&format!("\n{}", lines.concat()))?;
    }
    let is_healthy = shown.iter().all(|status| status.problems.is_empty());
    Ok(if is_healthy { Outcome::Ok } else { Outcome::Problems })
}

fn not_found(key: &ApplicationKey, objects: &Objects) -> CliError {
    let known: Vec<String> =
        objects.applications.iter().map(|found| ApplicationKey::of(found).to_string()).collect();
    let known = if known.is_empty() {
        "there are no applications".to_owned()
    } else {
        format!("existing applications: {}", world::suggestions(&known, &key.to_string()))
    };
    CliError::Usage(format!("application {key} does not exist; {known}"))
}
