//! `status`: an application on one screen, or all of them in a table.

mod folded;
mod known;
mod page;
mod state;
mod wrong;

use kube::ResourceExt;
use world::{ApplicationKey, Objects};

use self::known::Known;
use self::state::Status;
use crate::arguments::{Output, StatusArguments};
use crate::error::CliError;
use crate::style::{Style, Tone};
use crate::visible::{Visible, applications};
use crate::{Outcome, cluster, plan, print, read};

/// Finds the application, or all of them, and says how they are.
pub fn run(arguments: &StatusArguments) -> Result<Outcome, CliError> {
    let visible = if arguments.files.is_empty() {
        let named =
            arguments.name.as_deref().and_then(|name| name.split_once('/')).map(|(namespace, _)| namespace);
        applications(&arguments.cluster, named.or(arguments.namespace.as_deref()))?
    } else {
        Visible { objects: read::manifests(&arguments.files)?.0, ..Visible::default() }
    };
    if let Some(why) = visible.without(&["actorapplications"]) {
        return Err(CliError::Usage(why));
    }
    let Visible { objects, .. } = &visible;
    let known = Known::of(objects);
    let style = Style::of_stdout();
    let (shown, text) = match &arguments.name {
        None => {
            let shown: Vec<Status> = (objects.applications.iter())
                .filter(|found| arguments.namespace.is_none() || found.namespace() == arguments.namespace)
                .map(|found| Status::of(found, &known))
                .collect();
            let text = match arguments.output {
                Output::Table => page::overview(&shown, style),
                Output::Yaml => plan::yaml(&shown),
                Output::Json => plan::json(&shown),
            };
            (shown, text)
        }
        Some(name) => {
            let key = key(name, arguments)?;
            let found = objects.applications.iter().find(|found| ApplicationKey::of(found) == key);
            let status = Status::of(found.ok_or_else(|| unknown(&key, objects))?, &known);
            let text = match arguments.output {
                Output::Table => page::screen(&status, arguments.all, style),
                Output::Yaml => plan::yaml(&status),
                Output::Json => plan::json(&status),
            };
            (vec![status], text)
        }
    };
    print(&text)?;
    let not_seen = visible.not_seen();
    if matches!(arguments.output, Output::Table) && !not_seen.is_empty() {
        print(&format!(
            "\n{}\n",
            style.paint(Tone::Faint, &format!("Not to be seen with your rights: {}", not_seen.join("; ")))
        ))?;
    }
    let is_well = shown.iter().all(|status| status.wrong.is_empty());
    Ok(if is_well { Outcome::Done } else { Outcome::Wrong })
}

fn key(name: &str, arguments: &StatusArguments) -> Result<ApplicationKey, CliError> {
    if name.contains('/') {
        let key: ApplicationKey = name.parse().map_err(CliError::Usage)?;
        return match &arguments.namespace {
            Some(other) if *other != key.namespace => {
                Err(CliError::Usage(format!("{key} is not in namespace {other}; leave one of the two out")))
            }
            _ => Ok(key),
        };
    }
    let namespace = match &arguments.namespace {
        Some(namespace) => namespace.clone(),
        None if arguments.files.is_empty() => cluster::namespace(&arguments.cluster)?,
        None => "default".to_owned(),
    };
    Ok(ApplicationKey { namespace, name: name.to_owned() })
}

fn unknown(key: &ApplicationKey, objects: &Objects) -> CliError {
    let known: Vec<String> =
        objects.applications.iter().map(|found| ApplicationKey::of(found).to_string()).collect();
    let known = if known.is_empty() {
        "there is none at all".to_owned()
    } else {
        format!("there are: {}", world::offered(&known, &key.to_string()))
    };
    CliError::Usage(format!("there is no application {key}; {known}"))
}
