//! What the node agents expose.
//!
//! Units are Prometheus' base units and end the name. Labels are few: what is known of a device and does not change is
//! in `cairn_device_info`, to be joined by `node` and `device`.

/// Hands the list of what is counted of pods to a macro: by set of perf events, which event, how many counts make one of
/// the series' unit, and the series.
///
/// The agent opens the events in this order, and the rows below are made of it.
#[macro_export]
macro_rules! each_pod_counter {
    ($then:ident) => {
        $then! {
            Software {
                TASK_CLOCK / 1e9 => POD_TASK_CLOCK "cairn_pod_cpu_task_clock_seconds_total" "Time that the pod of an actor spent on CPUs, since the agent watches it.";
                CONTEXT_SWITCHES / 1.0 => POD_CONTEXT_SWITCHES "cairn_pod_context_switches_total" "How often its processes left a CPU.";
            }
            Hardware {
                CPU_CYCLES / 1.0 => POD_CYCLES "cairn_pod_cpu_cycles_total" "Cycles of CPUs that it used.";
                INSTRUCTIONS / 1.0 => POD_INSTRUCTIONS "cairn_pod_cpu_instructions_total" "Instructions that it executed.";
                CACHE_MISSES / 1.0 => POD_LLC_MISSES "cairn_pod_cpu_llc_misses_total" "Its misses of the last cache.";
            }
        }
    };
}

macro_rules! agent_names {
    ($($set:ident { $($event:ident / $scale:literal => $counter:ident $name:literal $help:literal;)+ })+) => {
        metric_names! {
            /// What an agent exposes.
            AGENT:
            BUILD_INFO = Info "cairn_agent_build_info" ["version"] "The version of the agent.";
            COLLECTOR_STATE = StateSet "cairn_agent_collector_state" ["collector", "state"] "How a collector fares: ok, absent, denied or error.";
            COLLECT_ERRORS = Counter "cairn_agent_collect_errors_total" ["collector", "reason"] "Problems that a collector found, each counted when it appeared.";
            COLLECT_DURATION = Gauge "cairn_agent_collect_duration_seconds" ["collector"] "How long the collector's last look took.";
            COLLECTOR_LAST_OK = Gauge "cairn_agent_collector_last_ok_timestamp_seconds" ["collector"] "When the collector was well last, in Unix time.";
            LAST_LOOK = Gauge "cairn_agent_last_look_timestamp_seconds" [] "When a look at the node came back last, in Unix time.";
            TOPOLOGY_CHANGES = Counter "cairn_agent_topology_changes_total" [] "Changes of a node's topology that were noticed since the start.";
            TOPOLOGY_LAST_CHANGE = Gauge "cairn_agent_topology_last_change_timestamp_seconds" [] "When the last of them was noticed, in Unix time.";
            PUBLISH_ERRORS = Counter "cairn_agent_topology_publish_errors_total" ["reason"] "Attempts to publish a topology that failed.";
            LEASE_RENEWALS = Counter "cairn_agent_lease_renewals_total" [] "Leases renewed.";
            LEASE_ERRORS = Counter "cairn_agent_lease_errors_total" ["reason"] "Attempts to renew a Lease that failed.";
            SERIES_DROPPED = Gauge "cairn_agent_series_dropped" ["limit"] "What this scrape leaves out, because there is more than the limit allows: links, allocations, pods, or series of one kind.";
            PERF_OPEN_FDS = Gauge "cairn_agent_perf_open_fds" [] "How many descriptors are open to count what pods do.";
            DEVICE_INFO = Info "cairn_device_info" ["node", "device", "kind", "vendor", "model", "pci_bus_id", "uuid", "driver", "numa_node", "parent"] "What is known of a device and does not change.";
            DEVICE_HEALTH = StateSet "cairn_device_health" ["node", "device", "state"] "How well a device is: ok, degraded, lost or unknown.";
            DEVICE_COMPUTE_RESOURCES = Gauge "cairn_device_compute_resources" ["node", "device", "kind"] "How many units of computation of one kind a device has.";
            MEMORY_CAPACITY = Gauge "cairn_memory_space_capacity_bytes" ["node", "device", "memory_space", "kind"] "The size of a memory space; memory_space counts those of a device from 0.";
            LINK_BANDWIDTH = Gauge "cairn_link_bandwidth_bytes_per_second" ["node", "source", "destination", "kind"] "What a link between two devices carries in one direction.";
            LINK_LATENCY = Gauge "cairn_link_relative_latency_ratio" ["node", "source", "destination", "kind"] "The latency of a link relative to local memory, which is 1.";
            DEVICE_UTILIZATION = Gauge "cairn_device_utilization_ratio" ["node", "device"] "The share of the last moment in which the device computed.";
            DEVICE_MEMORY_UTILIZATION = Gauge "cairn_device_memory_utilization_ratio" ["node", "device"] "The share of the last moment in which its memory was read or written.";
            DEVICE_MEMORY_USED = Gauge "cairn_device_memory_used_bytes" ["node", "device"] "How much of its memory is taken.";
            DEVICE_ENERGY = Counter "cairn_device_energy_joules_total" ["node", "device"] "What the device consumed.";
            DEVICE_POWER = Gauge "cairn_device_power_watts" ["node", "device"] "What the device consumes; only of those that do not count energy, whose rate it is.";
            DEVICE_POWER_LIMIT = Gauge "cairn_device_power_limit_watts" ["node", "device"] "What the device may consume.";
            DEVICE_TEMPERATURE = Gauge "cairn_device_temperature_celsius" ["node", "device", "sensor"] "How hot it is: in the core, or in its memory.";
            DEVICE_CLOCK = Gauge "cairn_device_clock_hertz" ["node", "device", "domain"] "How fast it ticks: what computes, or its memory.";
            DEVICE_THROTTLE = Counter "cairn_device_throttle_seconds_total" ["node", "device", "reason"] "For how long the device was slowed down: by power, thermal or other reasons.";
            DEVICE_ERRORS = Counter "cairn_device_errors_total" ["node", "device", "kind"] "Errors of the device: ecc_corrected, ecc_uncorrected, pcie_replay; xid, those that NVIDIA's driver reported since the agent watches.";
            DEVICE_XID_ERRORS = Counter "cairn_device_xid_errors_total" ["node", "device", "xid"] "The same XID errors by their number, which NVIDIA's list explains.";
            DEVICE_LINK_TRANSMIT = Counter "cairn_device_link_transmit_bytes_total" ["node", "device", "link"] "What went out through a link, which has the number that the device gives it.";
            DEVICE_LINK_RECEIVE = Counter "cairn_device_link_receive_bytes_total" ["node", "device", "link"] "What came in through a link.";
            POD_DEVICE_INFO = Info "cairn_pod_device_info" ["node", "namespace", "pod", "container", "resource", "device_id", "device"] "A container holds a device: device_id as the kubelet names it, device as the NodeTopology does, if it is there.";
            POD_EXCLUSIVE_CPUS = Gauge "cairn_pod_exclusive_cpus" ["node", "namespace", "pod", "container"] "How many CPUs a container has for itself.";
            $($($counter = Counter $name ["node", "namespace", "pod"] $help;)+)+
            POD_SCALING = Gauge "cairn_pod_perf_scaling_ratio" ["node", "namespace", "pod"] "The least share of an interval in which its hardware counters counted; the rest is extrapolated.";
        }
    };
}

each_pod_counter!(agent_names);
