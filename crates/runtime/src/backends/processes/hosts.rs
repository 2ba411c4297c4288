//! The launcher's resources: shares of its machine, or described hosts, each assigned to one Instance.

use crate::{
    hicr::{Device, Topology},
    model::{Error, InstanceId},
};

/// The shares and their assignment.
#[derive(Debug)]
pub struct Hosts {
    parts: Vec<(Topology, Vec<InstanceId>)>,
    /// The access to each share, in the same order.
    ways: Vec<HostAccess>,
    oversubscribe: bool,
}

/// Access to a host.
#[derive(Clone, Debug, Default)]
struct HostAccess {
    /// The command prefix that starts a program there; empty for this machine.
    launch: Vec<String>,
    /// The address at which peers reach its Instances.
    address: Option<String>,
}

impl Hosts {
    /// Divides `machine` into equal parts: contiguous blocks of processing units, equal shares of memory.
    pub fn share(machine: &Topology, parts: usize, oversubscribe: bool) -> Result<Self, Error> {
        let units: usize = machine.devices.iter().map(|device| device.compute_resources.len()).sum();
        if parts == 0 || (parts > units && !oversubscribe) {
            let why = format!("it has {units} processing units; request fewer parts or pass --oversubscribe");
            return Err(Error::misuse(&format!("share out the machine in {parts} parts"), why));
        }
        let part = |index: usize| {
            // All units in one sequence, cut into blocks; with more parts than units, each part gets one unit.
            let (first, last) = if parts > units {
                (index % units.max(1), index % units.max(1) + 1)
            } else {
                (index * units / parts, (index + 1) * units / parts)
            };
            let mut before = 0;
            let devices = machine.devices.iter().filter_map(|device| {
                let mine = before..before + device.compute_resources.len();
                before = mine.end;
                let (begin, end) = (first.max(mine.start), last.min(mine.end));
                let resources = device
                    .compute_resources
                    .get(begin.checked_sub(mine.start)?..end.checked_sub(mine.start)?)?;
                let mut shared = Device { compute_resources: resources.to_vec(), ..device.clone() };
                let sharers = (parts * mine.len().max(1)).div_ceil(units.max(1)).max(1) as u64;
                shared.memory_spaces.iter_mut().for_each(|space| space.size /= sharers);
                (!shared.compute_resources.is_empty()).then_some(shared)
            });
            (Topology { devices: devices.collect(), ..Topology::default() }, Vec::new())
        };
        let ways = vec![HostAccess::default(); parts];
        Ok(Self { parts: (0..parts).map(part).collect(), ways, oversubscribe })
    }

    /// Reads described hosts: a JSON list of topologies. Beside its devices, a host may have `Launch`, the command prefix
    /// that starts a program on it, and `Address`, at which peers reach it.
    pub fn read(text: &str, oversubscribe: bool) -> Result<Self, Error> {
        let wrong = |why: String| Error::misuse("read the hosts", why);
        let list: Vec<serde_json::Value> =
            serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let (mut parts, mut ways) = (Vec::new(), Vec::new());
        for (index, mut host) in list.into_iter().enumerate() {
            let wrong = |why: String| wrong(format!("host {index}: {why}"));
            ways.push(HostAccess::take(&mut host).map_err(wrong)?);
            parts.push((Topology::from_json(host).map_err(|error| wrong(error.to_string()))?, Vec::new()));
        }
        Ok(Self { parts, ways, oversubscribe })
    }

    /// Whether a host is, or is treated as, another machine.
    pub fn has_far(&self) -> bool {
        self.ways.iter().any(|way| !way.launch.is_empty())
    }

    /// The command prefix and the address for the host of this Instance.
    pub fn way_to(&self, id: InstanceId) -> (&[String], Option<&str>) {
        let at = self.parts.iter().position(|(_, owners)| owners.contains(&id));
        let way = at.and_then(|at| self.ways.get(at));
        way.map_or((&[], None), |way| (&way.launch, way.address.as_deref()))
    }

    /// Assigns the smallest free share that meets the requirements; an error describes what is missing.
    pub fn take(&mut self, id: InstanceId, wanted: &Topology) -> Result<Topology, String> {
        let size = |topology: &Topology| {
            let units: u64 =
                topology.devices.iter().flat_map(|device| &device.compute_resources).map(|it| it.count).sum();
            let bytes: u64 =
                topology.devices.iter().flat_map(|device| &device.memory_spaces).map(|it| it.size).sum();
            (units, bytes)
        };
        let fits = self.parts.iter().filter(|(part, _)| part.satisfies(wanted)).count();
        let free = |owners: &Vec<InstanceId>| owners.is_empty() || self.oversubscribe;
        let indices = 0..self.parts.len();
        let able = indices.filter(|&at| free(&self.parts[at].1) && self.parts[at].0.satisfies(wanted));
        let best = able.min_by_key(|&at| (self.parts[at].1.len(), size(&self.parts[at].0), at));
        let best = best.ok_or_else(|| {
            format!("of {} hosts {fits} meet the requirements, and none of these is free", self.parts.len())
        })?;
        self.parts[best].1.push(id);
        Ok(self.parts[best].0.clone())
    }

    /// Assigns the first free share.
    pub fn take_next(&mut self, id: InstanceId) -> Result<Topology, String> {
        let least = self.parts.iter_mut().min_by_key(|(_, owners)| owners.len());
        match least {
            Some((part, owners)) if owners.is_empty() || self.oversubscribe => {
                owners.push(id);
                Ok(part.clone())
            }
            _ => Err(format!(
                "no host is free for another Instance; describe more than {} hosts or pass --oversubscribe",
                self.parts.len()
            )),
        }
    }

    /// Releases the share of an Instance that has ended.
    pub fn give_back(&mut self, id: InstanceId) {
        self.parts.iter_mut().for_each(|(_, owners)| owners.retain(|owner| *owner != id));
    }
}

impl HostAccess {
    /// Extracts the access from a described host.
    fn take(host: &mut serde_json::Value) -> Result<Self, String> {
        let mut part = |name: &str| host.as_object_mut().and_then(|host| host.remove(name));
        let launch = part("Launch").map(serde_json::from_value).transpose();
        let address = part("Address").map(serde_json::from_value).transpose();
        Ok(Self {
            launch: launch.map_err(|_| "\"Launch\" must be a list of words")?.unwrap_or_default(),
            address: address.map_err(|_| "\"Address\" must be a string")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(domains: &[usize]) -> Topology {
        let unit = r#"{"Type":"Processing Unit"}"#;
        let domain = |units: &usize| {
            let units = vec![unit; *units].join(",");
            format!(
                r#"{{"Type":"NUMA Domain","Compute Resources":[{units}],"Memory Spaces":[{{"Type":"RAM","Size":1200}}]}}"#
            )
        };
        let domains: Vec<_> = domains.iter().map(domain).collect();
        Topology::read(&format!(r#"{{"Devices":[{}]}}"#, domains.join(","))).unwrap()
    }

    /// Units and bytes of each device of each part.
    fn parts(hosts: &Hosts) -> Vec<String> {
        let device = |device: &Device| {
            format!("{}u {}B", device.compute_resources.len(), device.memory_spaces[0].size)
        };
        hosts
            .parts
            .iter()
            .map(|(part, _)| part.devices.iter().map(device).collect::<Vec<_>>().join(" + "))
            .collect()
    }

    #[test]
    fn a_machine_is_divided_into_disjoint_shares() {
        assert_eq!(parts(&Hosts::share(&machine(&[4]), 2, false).unwrap()), ["2u 600B", "2u 600B"]);
        assert_eq!(parts(&Hosts::share(&machine(&[2, 2]), 2, false).unwrap()), ["2u 1200B", "2u 1200B"]);
        assert_eq!(parts(&Hosts::share(&machine(&[2, 2]), 1, false).unwrap()), ["2u 1200B + 2u 1200B"]);
        let error = Hosts::share(&machine(&[2]), 3, false).unwrap_err();
        insta::assert_snapshot!(error, @"cannot share out the machine in 3 parts: it has 2 processing units; request fewer parts or pass --oversubscribe");
        assert_eq!(parts(&Hosts::share(&machine(&[2]), 3, true).unwrap()), ["1u 400B", "1u 400B", "1u 400B"]);
    }

    #[test]
    fn a_host_description_has_launch_prefix_and_address() {
        let read = |way: &str| {
            Hosts::read(&format!(r#"[{{{way}"Devices":[]}}]"#), false).map_err(|error| error.to_string())
        };
        let mut far = read(r#""Launch":["ssh","blue"],"Address":"10.0.0.2","#).unwrap();
        assert!(far.has_far() && !read("").unwrap().has_far());
        far.take_next(InstanceId(1)).unwrap();
        let way = (&["ssh".to_owned(), "blue".to_owned()][..], Some("10.0.0.2"));
        assert_eq!(far.way_to(InstanceId(1)), way);
        insta::assert_snapshot!(read(r#""Launch":"ssh","#).unwrap_err(), @r#"cannot read the hosts: host 0: "Launch" must be a list of words"#);
        insta::assert_snapshot!(read(r#""Address":7,"#).unwrap_err(), @r#"cannot read the hosts: host 0: "Address" must be a string"#);
    }

    #[test]
    fn the_smallest_fitting_host_is_assigned_once() {
        let hosts = format!("[{},{}]", machine(&[8]).to_json(), machine(&[4]).to_json());
        let mut hosts = Hosts::read(&hosts, false).unwrap();
        let given = hosts.take(InstanceId(1), &Topology::default()).unwrap();
        assert_eq!(given, machine(&[4]));
        assert!(hosts.take(InstanceId(2), &machine(&[5])).is_ok());
        insta::assert_snapshot!(hosts.take(InstanceId(3), &machine(&[5])).unwrap_err(), @"of 2 hosts 1 meet the requirements, and none of these is free");
        hosts.give_back(InstanceId(2));
        assert!(hosts.take(InstanceId(3), &machine(&[5])).is_ok());
    }
}
