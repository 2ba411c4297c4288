//! Groups of perf events for a cgroup on one CPU: the interface to the kernel.

use std::{fs::File, io, time::Duration};

use perf_event::{
    Builder, Counter, ReadFormat,
    events::{Event, Hardware, Software},
};

use metric_names::{MetricDef, agent, each_pod_counter};

/// Events that are counted together and read by one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Set {
    /// Software events, available everywhere.
    Software,
    /// Hardware events, which require free CPU counters.
    Hardware,
}

macro_rules! sets {
    ($($set:ident { $($event:ident / $scale:literal => $series:ident $name:literal $help:literal;)+ })+) => {
        impl Set {
            /// The series of its events, in order, each with the number of counts per unit.
            pub fn series(self) -> &'static [(&'static MetricDef, f64)] {
                match self {
                    $(Self::$set => {
                        static SERIES: &[(&MetricDef, f64)] = &[$((&agent::$series, $scale)),+];
                        SERIES
                    })+
                }
            }

            /// Opens its events.
            fn open(self, cgroup: &File, cpu: usize) -> io::Result<Opened> {
                match self {
                    $(Self::$set => Opened::new(cgroup, cpu, [$($set::$event),+]),)+
                }
            }
        }
    };
}

each_pod_counter!(sets);

impl Set {
    /// The number of its events, each of which takes a file descriptor.
    pub fn len(self) -> usize {
        self.series().len()
    }
}

/// A reading of a group. All values are since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupReading {
    /// The time for which the group was enabled.
    pub enabled: Duration,
    /// The time for which the group was counted.
    pub running: Duration,
    /// The counts, in the order of [`Set::series`].
    pub counts: Vec<u64>,
}

/// Opens groups: the kernel, or a fake in tests.
///
/// The hooks of the crate `perf-event2` could be a fake, too, but setting them is `unsafe`.
pub trait Layer: Send {
    /// Counts `set` for the processes in `cgroup` while they run on `cpu`.
    fn open(&self, cgroup: &File, cpu: usize, set: Set) -> io::Result<Box<dyn Group>>;
}

/// An open group; closed on drop.
pub trait Group: Send {
    /// Its counts.
    fn read(&mut self) -> io::Result<GroupReading>;
}

/// The kernel's `perf_event_open`.
#[derive(Clone, Copy, Debug)]
pub struct Kernel;

impl Layer for Kernel {
    fn open(&self, cgroup: &File, cpu: usize, set: Set) -> io::Result<Box<dyn Group>> {
        Ok(Box::new(set.open(cgroup, cpu)?))
    }
}

/// The leader and the other events of a group.
struct Opened {
    leader: Counter,
    others: Vec<Counter>,
}

impl Opened {
    fn new<E: Event, const N: usize>(cgroup: &File, cpu: usize, events: [E; N]) -> io::Result<Self> {
        let format = ReadFormat::GROUP | ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
        let mut events = events.into_iter().map(|event| {
            let mut builder = Builder::new(event);
            // Kernel time on behalf of a process is part of its CPU usage.
            builder.observe_cgroup(cgroup).one_cpu(cpu).include_kernel().read_format(format);
            builder
        });
        let mut leader = events.next().expect("no set is empty").build()?;
        let others = events.map(|mut event| event.enabled(true).build_with_group(&mut leader));
        let others = others.collect::<io::Result<_>>()?;
        leader.enable_group()?;
        Ok(Self { leader, others })
    }
}

impl Group for Opened {
    fn read(&mut self) -> io::Result<GroupReading> {
        let data = self.leader.read_group()?;
        let (Some(enabled), Some(running)) = (data.time_enabled(), data.time_running()) else {
            return Err(io::Error::other("the kernel returned no times for a group"));
        };
        let counters = std::iter::once(&self.leader).chain(&self.others);
        let counts = counters.map(|counter| data.get(counter).map(|entry| entry.value()));
        let counts = counts.collect::<Option<_>>();
        let counts = counts.ok_or_else(|| io::Error::other("the kernel returned no count of an event"))?;
        Ok(GroupReading { enabled, running, counts })
    }
}
