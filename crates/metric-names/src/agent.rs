//! Metrics of the node agent.
//!
//! Names end with a base unit of Prometheus. Constant properties of a device are labels of `cairn_device_info` only, to be
//! joined by `node` and `device`.

/// Passes the list of per-pod performance counters to a macro: by set of perf events, the event, its counts per unit of the
/// series, and the series.
///
/// The agent opens the events in this order.
#[macro_export]
macro_rules! each_pod_counter {
    ($then:ident) => {
        $then! {
            Software {
                TASK_CLOCK / 1e9 => POD_TASK_CLOCK "cairn_pod_cpu_task_clock_seconds_total" "CPU time of the actor's pod since the agent observes it.";
                CONTEXT_SWITCHES / 1.0 => POD_CONTEXT_SWITCHES "cairn_pod_context_switches_total" "Context switches of the pod's processes.";
            }
            Hardware {
                CPU_CYCLES / 1.0 => POD_CYCLES "cairn_pod_cpu_cycles_total" "CPU cycles of the pod.";
                INSTRUCTIONS / 1.0 => POD_INSTRUCTIONS "cairn_pod_cpu_instructions_total" "Instructions executed by the pod.";
                CACHE_MISSES / 1.0 => POD_LLC_MISSES "cairn_pod_cpu_llc_misses_total" "Last-level cache misses of the pod.";
            }
        }
    };
}

macro_rules! agent_names {
    ($($set:ident { $($event:ident / $scale:literal => $counter:ident $name:literal $help:literal;)+ })+) => {
        metric_names! {
            /// All metrics of the node agent.
            AGENT:
            BUILD_INFO = Info "cairn_agent_build_info" ["version"] "Version of the agent.";
            COLLECTOR_STATE = StateSet "cairn_agent_collector_state" ["collector", "state"] "State of a collector: ok, absent, denied or error.";
            COLLECT_ERRORS = Counter "cairn_agent_collect_errors_total" ["collector", "reason"] "Errors of a collector, each counted when it first occurs.";
            COLLECT_DURATION = Gauge "cairn_agent_collect_duration_seconds" ["collector"] "Duration of the last probe of a collector.";
            COLLECTOR_LAST_OK = Gauge "cairn_agent_collector_last_ok_timestamp_seconds" ["collector"] "Unix time of the last successful probe of a collector.";
            LAST_PROBE = Gauge "cairn_agent_last_probe_timestamp_seconds" [] "Unix time of the last completed probe of the node.";
            TOPOLOGY_CHANGES = Counter "cairn_agent_topology_changes_total" [] "Changes of the node's topology since the start.";
            TOPOLOGY_LAST_CHANGE = Gauge "cairn_agent_topology_last_change_timestamp_seconds" [] "Unix time of the last change of the topology.";
            PUBLISH_ERRORS = Counter "cairn_agent_topology_publish_errors_total" ["reason"] "Failed attempts to publish a topology.";
            LEASE_RENEWALS = Counter "cairn_agent_lease_renewals_total" [] "Renewals of Leases.";
            LEASE_ERRORS = Counter "cairn_agent_lease_errors_total" ["reason"] "Failed attempts to renew a Lease.";
            SERIES_DROPPED = Gauge "cairn_agent_series_dropped" ["limit"] "Items dropped from this scrape because they exceed a limit: links, allocations, pods, or series of one metric.";
            PERF_OPEN_FDS = Gauge "cairn_agent_perf_open_fds" [] "Open file descriptors of performance counters.";
            DEVICE_INFO = Info "cairn_device_info" ["node", "device", "kind", "vendor", "model", "pci_bus_id", "uuid", "driver", "numa_node", "parent"] "Constant properties of a device.";
            DEVICE_HEALTH = StateSet "cairn_device_health" ["node", "device", "state"] "Health of a device: ok, degraded, lost or unknown.";
            DEVICE_COMPUTE_RESOURCES = Gauge "cairn_device_compute_resources" ["node", "device", "kind"] "Number of compute resources of a device, by kind.";
            MEMORY_CAPACITY = Gauge "cairn_memory_space_capacity_bytes" ["node", "device", "memory_space", "kind"] "Size of a memory space; the label memory_space is its index on the device.";
            LINK_BANDWIDTH = Gauge "cairn_link_bandwidth_bytes_per_second" ["node", "source", "destination", "kind"] "Bandwidth of a link between two devices, in one direction.";
            LINK_LATENCY = Gauge "cairn_link_relative_latency_ratio" ["node", "source", "destination", "kind"] "Latency of a link relative to local memory, which is 1.";
            DEVICE_UTILIZATION = Gauge "cairn_device_utilization_ratio" ["node", "device"] "Share of the last sample period in which the device was busy.";
            DEVICE_MEMORY_UTILIZATION = Gauge "cairn_device_memory_utilization_ratio" ["node", "device"] "Share of the last sample period in which device memory was read or written.";
            DEVICE_MEMORY_USED = Gauge "cairn_device_memory_used_bytes" ["node", "device"] "Used device memory.";
            DEVICE_ENERGY = Counter "cairn_device_energy_joules_total" ["node", "device"] "Energy consumption of the device.";
            DEVICE_POWER = Gauge "cairn_device_power_watts" ["node", "device"] "Power draw of a device without an energy counter.";
            DEVICE_POWER_LIMIT = Gauge "cairn_device_power_limit_watts" ["node", "device"] "Power limit of the device.";
            DEVICE_TEMPERATURE = Gauge "cairn_device_temperature_celsius" ["node", "device", "sensor"] "Temperature of the device, by sensor: core or memory.";
            DEVICE_CLOCK = Gauge "cairn_device_clock_hertz" ["node", "device", "domain"] "Clock frequency of the device, by domain: compute or memory.";
            DEVICE_THROTTLE = Counter "cairn_device_throttle_seconds_total" ["node", "device", "reason"] "Time for which the device was throttled, by reason: power, thermal or other.";
            DEVICE_ERRORS = Counter "cairn_device_errors_total" ["node", "device", "kind"] "Errors of the device: ecc_corrected, ecc_uncorrected, pcie_replay, or xid (reported by NVIDIA's driver while the agent runs).";
            DEVICE_XID_ERRORS = Counter "cairn_device_xid_errors_total" ["node", "device", "xid"] "XID errors by number, as documented by NVIDIA.";
            DEVICE_LINK_TRANSMIT = Counter "cairn_device_link_transmit_bytes_total" ["node", "device", "link"] "Bytes transmitted on a link; the label link is the number that the device assigns.";
            DEVICE_LINK_RECEIVE = Counter "cairn_device_link_receive_bytes_total" ["node", "device", "link"] "Bytes received on a link.";
            POD_DEVICE_INFO = Info "cairn_pod_device_info" ["node", "namespace", "pod", "container", "resource", "device_id", "device"] "A device allocated to a container: device_id as named by the kubelet, device as in the NodeTopology, if it is listed there.";
            POD_EXCLUSIVE_CPUS = Gauge "cairn_pod_exclusive_cpus" ["node", "namespace", "pod", "container"] "Number of exclusive CPUs of a container.";
            $($($counter = Counter $name ["node", "namespace", "pod"] $help;)+)+
            POD_SCALING = Gauge "cairn_pod_perf_scaling_ratio" ["node", "namespace", "pod"] "Smallest share of an interval in which the pod's hardware counters were active; the rest is extrapolated.";
        }
    };
}

each_pod_counter!(agent_names);
