//! Platforms as YAML.

use serde::{Deserialize, Serialize};

use super::{Pairs, positive, version, within, yaml};
use crate::files::graph::{LARGEST, kind};
use crate::{
    Communication, Costs, FileError, Group, HostCores, Kind, Link, Links, MOST_PES, Platform, Transfer,
};

/// Upper limit on costs in nanoseconds (17 min).
pub const LARGEST_COST: u64 = 1_000_000_000_000;

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct PlatformFile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    pes: Vec<GroupFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    links: Option<LinksFile>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    communication: Vec<CommunicationFile>,
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    transfer: Pairs<TransferFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    costs: Option<CostsFile>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct GroupFile {
    kind: Kind,
    #[serde(default = "one")]
    count: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    work: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vector: Option<f64>,
}

fn one() -> usize {
    1
}

#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum LinksFile {
    Uniform(UniformFile),
    Some(Vec<LinkFile>),
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct UniformFile {
    bandwidth: f64,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct LinkFile {
    a: String,
    b: String,
    bandwidth: f64,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CommunicationFile {
    a: Kind,
    b: Kind,
    startup: f64,
    per_unit: f64,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TransferFile {
    #[serde(default)]
    fixed_nanoseconds: u64,
    #[serde(default)]
    #[serde(rename = "nanosecondsPerKiB")]
    nanoseconds_per_kib: f64,
}

#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum CostsFile {
    Named(String),
    Given(GivenFile),
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct GivenFile {
    #[serde(default)]
    assign: u64,
    #[serde(default)]
    look: u64,
    #[serde(default)]
    compare: u64,
    #[serde(default)]
    dispatch: u64,
    #[serde(default)]
    host_cores: Option<String>,
}

/// Reads a platform from its YAML text.
pub fn read(text: &str) -> Result<Platform, FileError> {
    let file: PlatformFile = yaml(text)?;
    version(file.version.unwrap_or(super::VERSION))?;
    let mut groups = Vec::with_capacity(file.pes.len());
    for (position, GroupFile { kind, count, work, vector }) in file.pes.into_iter().enumerate() {
        let path = |field: &str| format!("pes[{position}].{field}");
        if count > MOST_PES {
            return Err(FileError::new(
                path("count"),
                format!("{count}"),
                format!("write at most {MOST_PES}"),
            ));
        }
        let work = positive(&path("work"), work.unwrap_or(1.0), LARGEST)?;
        let vector = positive(&path("vector"), vector.unwrap_or(1.0), LARGEST)?;
        groups.push(Group { kind, count, work, vector });
    }
    let mut platform = Platform::new(&groups)?;
    platform.links = file.links.map(|links| read_links(&platform, links)).transpose()?;
    for (position, CommunicationFile { a, b, startup, per_unit }) in
        file.communication.into_iter().enumerate()
    {
        let path = format!("communication[{position}]");
        for kind in [&a, &b] {
            has(&platform, &path, kind)?;
        }
        within(&format!("{path}.startup"), startup, 0.0, LARGEST)?;
        within(&format!("{path}.perUnit"), per_unit, 0.0, LARGEST)?;
        let pair = if a <= b { (a, b) } else { (b, a) };
        if platform.communication.insert(pair, Communication { startup, per_unit }).is_some() {
            return Err(FileError::new(path, "this pair occurs twice", "write each pair once"));
        }
    }
    for (name, TransferFile { fixed_nanoseconds, nanoseconds_per_kib }) in file.transfer.0 {
        let path = format!("transfer.{name}");
        let kind = kind(&path, &name)?;
        has(&platform, &path, &kind)?;
        at_most(&format!("{path}.fixedNanoseconds"), fixed_nanoseconds)?;
        let ns_per_kib = within(&format!("{path}.nanosecondsPerKiB"), nanoseconds_per_kib, 0.0, 1e9)?;
        platform.transfer.insert(kind, Transfer { fixed_ns: fixed_nanoseconds, ns_per_kib });
    }
    platform.costs = file.costs.map_or(Ok(Costs::FREE), read_costs)?;
    Ok(platform)
}

fn has(platform: &Platform, path: &str, kind: &Kind) -> Result<(), FileError> {
    if platform.pes().iter().any(|pe| pe.kind == *kind) {
        return Ok(());
    }
    Err(FileError::new(path, format!("`pes` has no {kind}"), "add one, or remove this entry"))
}

fn at_most(path: &str, cost: u64) -> Result<u64, FileError> {
    if cost <= LARGEST_COST {
        return Ok(cost);
    }
    Err(FileError::new(path, format!("{cost} ns"), format!("write at most {LARGEST_COST}")))
}

fn read_links(platform: &Platform, links: LinksFile) -> Result<Links, FileError> {
    let links = match links {
        LinksFile::Uniform(UniformFile { bandwidth }) => {
            return Ok(Links::Uniform(positive("links.bandwidth", bandwidth, LARGEST)?));
        }
        LinksFile::Some(links) => links,
    };
    let mut read: Vec<Link> = Vec::with_capacity(links.len());
    for (position, LinkFile { a, b, bandwidth }) in links.into_iter().enumerate() {
        let path = format!("links[{position}]");
        let find = |field: &str, name: &str| {
            let remedy = "name one by kind and number from 0, such as cpu-0";
            platform.pe(name).ok_or_else(|| {
                FileError::new(
                    format!("{path}.{field}"),
                    format!("`{name}` is not a processing element"),
                    remedy,
                )
            })
        };
        let (a, b) = (find("a", &a)?, find("b", &b)?);
        let bandwidth = positive(&format!("{path}.bandwidth"), bandwidth, LARGEST)?;
        if a == b {
            return Err(FileError::new(path, "both ends are the same", "name two processing elements"));
        }
        read.push(Link { a, b, bandwidth });
    }
    Ok(Links::Some(read))
}

fn read_costs(file: CostsFile) -> Result<Costs, FileError> {
    let given = match file {
        CostsFile::Named(name) => match name.as_str() {
            "free" => return Ok(Costs::FREE),
            "zcu102" => return Ok(Costs::ZCU102),
            _ => {
                let remedy = "write free, zcu102 or {assign, look, compare, dispatch, hostCores}";
                return Err(FileError::new("costs", format!("`{name}` is unknown"), remedy));
            }
        },
        CostsFile::Given(given) => given,
    };
    let host_cores = match given.host_cores.as_deref() {
        None | Some("own") => HostCores::Own,
        Some("shared") => HostCores::Shared,
        Some(other) => {
            let problem = format!("`{other}` is unknown");
            return Err(FileError::new("costs.hostCores", problem, "write own or shared"));
        }
    };
    Ok(Costs {
        assign: at_most("costs.assign", given.assign)?,
        look: at_most("costs.look", given.look)?,
        compare: at_most("costs.compare", given.compare)?,
        dispatch: at_most("costs.dispatch", given.dispatch)?,
        host_cores,
    })
}

/// Writes a platform as YAML; reading it gives an equal platform.
pub fn write(platform: &Platform) -> String {
    let mut pes: Vec<GroupFile> = Vec::new();
    for pe in platform.pes() {
        #[expect(clippy::float_cmp, reason = "1 is the default when reading")]
        let (work, vector) = (Some(pe.work).filter(|w| *w != 1.0), Some(pe.vector).filter(|v| *v != 1.0));
        match pes.last_mut() {
            Some(last) if last.kind == pe.kind && last.work == work && last.vector == vector => {
                last.count += 1;
            }
            _ => pes.push(GroupFile { kind: pe.kind.clone(), count: 1, work, vector }),
        }
    }
    let id = |pe: usize| platform.pes()[pe].id.clone();
    let links = platform.links.as_ref().map(|links| match links {
        Links::Uniform(bandwidth) => LinksFile::Uniform(UniformFile { bandwidth: *bandwidth }),
        Links::Some(links) => LinksFile::Some(
            links
                .iter()
                .map(|link| LinkFile { a: id(link.a), b: id(link.b), bandwidth: link.bandwidth })
                .collect(),
        ),
    });
    let communication = platform.communication.iter();
    let transfer = platform.transfer.iter().map(|(kind, Transfer { fixed_ns, ns_per_kib })| {
        let file = TransferFile { fixed_nanoseconds: *fixed_ns, nanoseconds_per_kib: *ns_per_kib };
        (kind.to_string(), file)
    });
    let costs = match platform.costs {
        Costs::FREE => None,
        Costs::ZCU102 => Some(CostsFile::Named("zcu102".to_owned())),
        Costs { assign, look, compare, dispatch, host_cores } => {
            let host_cores = Some(if host_cores == HostCores::Own { "own" } else { "shared" }.to_owned());
            Some(CostsFile::Given(GivenFile { assign, look, compare, dispatch, host_cores }))
        }
    };
    let file = PlatformFile {
        version: Some(super::VERSION),
        pes,
        links,
        communication: communication
            .map(|((a, b), Communication { startup, per_unit })| CommunicationFile {
                a: a.clone(),
                b: b.clone(),
                startup: *startup,
                per_unit: *per_unit,
            })
            .collect(),
        transfer: Pairs(transfer.collect()),
        costs,
    };
    serde_yaml::to_string(&file).expect("plain data with text keys always serializes")
}
