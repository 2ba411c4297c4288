//! Why the API server rejects the resources of a pod: its validation, `LimitRange`s, and what `ResourceQuota`s require.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Container, LimitRange, LimitRangeItem, PersistentVolumeClaimSpec, PodSpec, ResourceQuota,
    ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use crate::Index;
use crate::constraints::volumes::volume_claims::ephemeral;
use crate::demand::pods::{
    Amounts, Quantities, container_totals, is_huge_page, is_pod_level, is_pod_level_resource, parse,
    pod_totals,
};
use crate::index::named;
use crate::numbers::{Exact, quantity};

/// Why admission rejects pods with this spec, which has its defaults.
pub(crate) fn resource_obstacle(index: &Index, namespace: &str, spec: &PodSpec) -> Option<String> {
    let ranges = named(&index.namespaces.limits, namespace, "");
    let items = ranges.iter().flat_map(|range| {
        let items = range.spec.iter().flat_map(|spec| &spec.limits);
        items.map(|item| (range.name_any(), item))
    });
    let defaults = index.namespaces.defaults(namespace).limits;
    let default_of = |resource: &str, limit: &Quantity| {
        let sets = |item: &LimitRangeItem| {
            let mut amounts = [&item.default, &item.max].into_iter().flatten();
            item.type_ == "Container" && amounts.any(|it| it.contains_key(resource))
        };
        let sets_it = |range: &&Arc<LimitRange>| range.spec.iter().flat_map(|spec| &spec.limits).any(sets);
        let range = ranges.iter().copied().find(sets_it).filter(|_| defaults.get(resource) == Some(limit));
        range.map(|range| format!("the default of LimitRange {}; set a limit", range.name_any()))
    };
    let required = || index.quotas_of(namespace).find_map(|quota| required_obstacle(quota, spec));
    invalid_container(spec, &default_of)
        .or_else(|| Some(format!("the pod {}", pod_problem(spec, spec.resources.as_ref()?)?)))
        .or_else(|| items.into_iter().find_map(|(name, item)| item_obstacle(&name, item, spec)))
        .or_else(required)
}

fn all(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

/// The API server's validation of containers, after a `LimitRange` may have added requests and limits.
fn invalid_container(spec: &PodSpec, default_of: DefaultOf) -> Option<String> {
    all(spec).find_map(|container| {
        let problem = requirements_problem(container.resources.as_ref()?, default_of)?;
        Some(format!("container {} {problem}", container.name))
    })
}

/// What a limit of a resource is, and the remedy, if it is a default.
type DefaultOf<'a> = &'a dyn Fn(&str, &Quantity) -> Option<String>;

/// `validateResourceRequirements`.
fn requirements_problem(resources: &ResourceRequirements, default_of: DefaultOf) -> Option<String> {
    let (requests, limits) = (resources.requests.as_ref(), resources.limits.as_ref());
    let (asked, most) = (parse(requests, None).ok()?, parse(limits, None).ok()?);
    let of_request = |(resource, request): (&String, &Quantity)| {
        let may_differ = may_be_overcommitted(resource);
        let Some(limit) = limits.and_then(|limits| limits.get(resource)) else {
            let problem = || format!("requests {resource} without a limit; set the limit to the same amount");
            return (!may_differ).then(problem);
        };
        let default = || default_of(resource, limit).map(|default| format!(", {default}"));
        let (request, limit) = (&request.0, &limit.0);
        match asked.get(resource)?.cmp(most.get(resource)?) {
            Ordering::Equal => None,
            _ if !may_differ => Some(format!(
                "requests {request} of {resource}, its limit is {limit}; set both to the same amount"
            )),
            Ordering::Greater => {
                let remedy = default().unwrap_or_else(|| "; raise the limit".to_owned());
                Some(format!("requests {request} of {resource}, above its limit of {limit}{remedy}"))
            }
            Ordering::Less => None,
        }
    };
    let lacks_memory = || {
        let mut names = asked.keys().chain(most.keys());
        let has_cpu_or_memory = names.clone().any(|name| matches!(name.as_str(), "cpu" | "memory"));
        (!has_cpu_or_memory && names.any(|name| is_huge_page(name)))
            .then(|| "has huge pages, but neither CPU nor memory; request one of them".to_owned())
    };
    requests.into_iter().flatten().find_map(of_request).or_else(lacks_memory)
}

/// `IsOvercommitAllowed`: extended resources and huge pages are requested up to their limit.
fn may_be_overcommitted(resource: &str) -> bool {
    (!resource.contains('/') || resource.contains("kubernetes.io/")) && !is_huge_page(resource)
}

/// What is wrong with the resources of the pod as a whole: `validatePodResourceRequirements` and
/// `validatePodResourceConsistency`.
fn pod_problem(spec: &PodSpec, resources: &ResourceRequirements) -> Option<String> {
    let (requests, limits) = (resources.requests.as_ref(), resources.limits.as_ref());
    let mut names = [requests, limits].into_iter().flatten().flat_map(BTreeMap::keys);
    if let Some(resource) = names.find(|name| !is_pod_level_resource(name)) {
        return Some(format!("cannot request or limit {resource} as a whole; set it for a container"));
    }
    if let Some(problem) = requirements_problem(resources, &|_, _| None) {
        return Some(problem);
    }
    let requests = parse(requests, None).ok()?;
    let of_containers = container_totals(spec, |it| it.requests.as_ref()).ok()?;
    let is_below =
        |resource: &&String| requests.get(*resource).is_some_and(|own| *own < of_containers[*resource]);
    if let Some(resource) = of_containers.keys().find(is_below) {
        return Some(format!("requests less {resource} than its containers in total; raise its request"));
    }
    let limits = parse(limits, None).ok()?;
    spec.containers.iter().find_map(|container| {
        let of_container = parse(container.resources.as_ref()?.limits.as_ref(), None).ok()?;
        let is_above =
            |(resource, limit): &(&String, &Exact)| limits.get(*resource).is_some_and(|most| *limit > most);
        let (resource, _) = of_container.iter().find(is_above)?;
        Some(format!("has a lower limit of {resource} than container {}; raise it", container.name))
    })
}

fn resources(container: &Container) -> (Option<&Amounts>, Option<&Amounts>) {
    let given = container.resources.as_ref();
    (given.and_then(|it| it.requests.as_ref()), given.and_then(|it| it.limits.as_ref()))
}

/// `PodValidateLimitFunc` and `PersistentVolumeClaimValidateLimitFunc` of the admission plugin `LimitRanger`. A pod waits for the
/// claims of its ephemeral volumes.
fn item_obstacle(name: &str, item: &LimitRangeItem, spec: &PodSpec) -> Option<String> {
    match item.type_.as_str() {
        "Container" => all(spec).find_map(|container| {
            let (requests, limits) = resources(container);
            let (requests, limits) = (parse(requests, None).ok()?, parse(limits, None).ok()?);
            let problem = bounds_problem(item, &requests, &limits)?;
            Some(format!("LimitRange {name}: container {} {problem}", container.name))
        }),
        "Pod" => {
            let requests = pod_totals(spec, |it| it.requests.as_ref()).ok()?;
            let limits = pod_totals(spec, |it| it.limits.as_ref()).ok()?;
            let problem = bounds_problem(item, &requests, &limits)?;
            Some(format!("LimitRange {name}: the pod {problem}"))
        }
        "PersistentVolumeClaim" => ephemeral(spec).find_map(|(volume, claim)| {
            Some(format!("LimitRange {name}: the claim of volume {volume} {}", claim_problem(item, claim)?))
        }),
        _ => None,
    }
}

/// What violates a minimum or maximum of claims.
fn claim_problem(item: &LimitRangeItem, claim: &PersistentVolumeClaimSpec) -> Option<String> {
    let requests = parse(claim.resources.as_ref().and_then(|it| it.requests.as_ref()), None).ok()?;
    let minimum = item.min.iter().flatten().map(|bound| (bound, Ordering::Less, "less", "minimum"));
    let maximum = item.max.iter().flatten().map(|bound| (bound, Ordering::Greater, "more", "maximum"));
    minimum.chain(maximum).find_map(|((resource, bound), outside, word, name)| {
        let limit = quantity(&bound.0).ok()?;
        match requests.get(resource).map(|asked| asked.cmp(&limit)) {
            None => Some(format!("needs a request of {resource}")),
            Some(order) if order == outside => {
                Some(format!("requests {word} {resource} than the {name} of {}", bound.0))
            }
            Some(_) => None,
        }
    })
}

/// What violates a minimum, a maximum or the ratio of limit to request.
fn bounds_problem<'a>(
    item: &'a LimitRangeItem,
    requests: &'a Quantities,
    limits: &'a Quantities,
) -> Option<String> {
    let each = |bounds: &'a Option<Amounts>| {
        // The device that the pool adds is not in the template.
        let is_known = |resource: &String| {
            !resource.contains('/') || requests.contains_key(resource) || limits.contains_key(resource)
        };
        bounds.iter().flatten().filter(move |(resource, _)| is_known(resource)).filter_map(
            |(resource, bound)| {
                Some((
                    resource,
                    &bound.0,
                    quantity(&bound.0).ok()?,
                    requests.get(resource),
                    limits.get(resource),
                ))
            },
        )
    };
    let minimum =
        each(&item.min).find_map(|(resource, text, least, request, limit)| match (request, limit) {
            (None, _) => Some(format!("needs a request of {resource}, at least {text}")),
            (Some(request), _) if *request < least => {
                Some(format!("requests less {resource} than the minimum of {text}"))
            }
            (_, Some(limit)) if *limit < least => {
                Some(format!("has a limit of {resource} below the minimum of {text}"))
            }
            _ => None,
        });
    let maximum = each(&item.max).find_map(|(resource, text, most, request, limit)| match (request, limit) {
        (_, None) => Some(format!("needs a limit of {resource}, at most {text}")),
        (_, Some(limit)) if *limit > most => {
            Some(format!("has a limit of {resource} above the maximum of {text}"))
        }
        (Some(request), _) if *request > most => {
            Some(format!("requests more {resource} than the maximum of {text}"))
        }
        _ => None,
    });
    let ratio = || {
        each(&item.max_limit_request_ratio).find_map(|(resource, text, most, request, limit)| {
            let given = |amount: Option<&Exact>| amount.copied().filter(|amount| *amount > Exact::default());
            match (given(request), given(limit)) {
                (Some(request), Some(limit)) => (limit / request > most)
                    .then(|| format!("has a limit of {resource} above {text} times its request")),
                _ => Some(format!(
                    "needs a request and a limit of {resource}, the limit at most {text} times the request"
                )),
            }
        })
    };
    minimum.or(maximum).or_else(ratio)
}

/// `podEvaluator.Constraints`: containers must specify what a quota limits of CPU and memory.
fn required_obstacle(quota: &ResourceQuota, spec: &PodSpec) -> Option<String> {
    if spec.resources.as_ref().is_some_and(is_pod_level) || !is_unscoped(quota) {
        return None;
    }
    let hard = quota.spec.as_ref()?.hard.as_ref()?;
    hard.keys().find_map(|counted| {
        let (field, resource) = match counted.as_str() {
            "cpu" | "memory" => ("request", counted.as_str()),
            "requests.cpu" => ("request", "cpu"),
            "requests.memory" => ("request", "memory"),
            "limits.cpu" => ("limit", "cpu"),
            "limits.memory" => ("limit", "memory"),
            _ => return None,
        };
        let lacks = |container: &&Container| {
            let (requests, limits) = resources(container);
            let given = if field == "limit" { limits } else { requests };
            given.is_none_or(|given| !given.contains_key(resource))
        };
        let container = all(spec).find(lacks)?;
        Some(format!(
            "ResourceQuota {} has {counted}: container {} needs a {field} of {resource}",
            quota.name_any(),
            container.name
        ))
    })
}

/// Whether a quota counts all pods of its namespace.
pub(crate) fn is_unscoped(quota: &ResourceQuota) -> bool {
    let has_none = |spec: &k8s_openapi::api::core::v1::ResourceQuotaSpec| {
        spec.scopes.as_ref().is_none_or(Vec::is_empty) && spec.scope_selector.is_none()
    };
    quota.spec.as_ref().is_some_and(has_none)
}
