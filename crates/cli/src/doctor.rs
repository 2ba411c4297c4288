//! `doctor`: whether Cairn itself is well: operator, agents, pools, policies, rights, admission policies.

mod diagnosis;
mod found;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use world::Objects;

use self::diagnosis::diagnose;
use self::found::{AGENT, Finding, Found, Level, OPERATOR};
use crate::arguments::{DoctorArguments, Output};
use crate::cluster::{self, client, wait_for};
use crate::error::CliError;
use crate::style::{Style, Tone};
use crate::table::Table;
use crate::{Outcome, plan, print};

/// What the operator cannot work without, one right for each part of its work: group, resource, verb.
const RIGHTS: [(&str, &str, &str); 8] = [
    ("", "nodes", "list"),
    ("", "pods", "create"),
    ("", "pods", "delete"),
    ("cairn.dev", "actorapplications", "watch"),
    ("cairn.dev", "instances", "create"),
    ("cairn.dev", "placements", "patch"),
    ("cairn.dev", "placements/status", "patch"),
    ("events.k8s.io", "events", "create"),
];

/// Looks, and says how everything is.
pub fn run(arguments: &DoctorArguments) -> Result<Outcome, CliError> {
    let objects = cluster::objects(&arguments.cluster)?;
    let found = wait_for(async { Ok(look(client(&arguments.cluster).await?, objects, arguments).await) })?;
    let findings = diagnose(&found, &arguments.default_policy, Timestamp::now());
    print(&match arguments.output {
        Output::Json => plan::json(&findings),
        Output::Yaml => plan::yaml(&findings),
        Output::Table => render(&findings, Style::of_stdout()),
    })?;
    let is_well = findings.iter().all(|finding| finding.level < Level::Wrong);
    Ok(if is_well { Outcome::Done } else { Outcome::Wrong })
}

async fn look(client: Client, objects: Objects, arguments: &DoctorArguments) -> Found {
    let namespace = &arguments.cluster.operator_namespace;
    let why = |error: kube::Error| error.to_string();
    let deployments = Api::<Deployment>::namespaced(client.clone(), namespace);
    let daemon_sets = Api::<DaemonSet>::namespaced(client.clone(), namespace);
    let leader = Api::<Lease>::namespaced(client.clone(), namespace);
    let agents = Api::<Lease>::namespaced(client.clone(), &arguments.agents_namespace);
    let policies = Api::<ValidatingAdmissionPolicy>::all(client.clone());
    let everything = ListParams::default();
    let (operator, agent, leader, agents, admission, lacking) = futures::join!(
        deployments.get_opt(OPERATOR),
        daemon_sets.get_opt(AGENT),
        leader.get_opt(OPERATOR),
        agents.list(&everything),
        policies.list(&everything),
        lacking(&client, namespace),
    );
    Found {
        objects,
        operator: operator.map_err(why),
        agent: agent.map_err(why),
        leader: leader.map_err(why),
        agents: agents.map(|list| list.items).map_err(why),
        admission: admission.map(|list| list.items.iter().map(ResourceExt::name_any).collect()).map_err(why),
        lacking: lacking.map_err(why),
    }
}

/// What the operator may not do of that which it must.
async fn lacking(client: &Client, namespace: &str) -> Result<Vec<String>, kube::Error> {
    let reviews = Api::<SubjectAccessReview>::all(client.clone());
    let mut lacking = Vec::new();
    for (group, resource, verb) in RIGHTS {
        let (resource, subresource) =
            resource.split_once('/').map_or((resource, None), |(a, b)| (a, Some(b)));
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{namespace}:{OPERATOR}")),
                groups: Some(vec!["system:serviceaccounts".to_owned(), "system:authenticated".to_owned()]),
                resource_attributes: Some(ResourceAttributes {
                    group: Some(group.to_owned()),
                    resource: Some(resource.to_owned()),
                    subresource: subresource.map(str::to_owned),
                    verb: Some(verb.to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let answer = reviews.create(&PostParams::default(), &review).await?;
        if !answer.status.is_some_and(|status| status.allowed) {
            let subresource = subresource.map(|name| format!("/{name}")).unwrap_or_default();
            lacking.push(format!("{verb} {resource}{subresource}"));
        }
    }
    Ok(lacking)
}

fn render(findings: &[Finding], style: Style) -> String {
    let mut table = Table::new(&["", "PART", "FOUND", "WHAT TO DO"]);
    for finding in findings {
        let (mark, tone) = match finding.level {
            Level::Well => ("ok", Tone::Good),
            Level::Unknown => ("?", Tone::Faint),
            Level::Warning => ("!", Tone::Change),
            Level::Wrong => ("wrong", Tone::Bad),
        };
        table.row([
            (mark.to_owned(), tone),
            (finding.area.to_owned(), Tone::Plain),
            (finding.text.clone(), Tone::Plain),
            (finding.to_do.clone().unwrap_or_default(), Tone::Plain),
        ]);
    }
    table.render(style)
}
