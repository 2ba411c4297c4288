//! Snapshots of small clusters.

mod admission;
mod arriving;
mod between_pods;
mod claim_quotas;
mod cluster;
mod demand;
mod device_requests;
mod device_sharing;
mod devices;
mod disks;
mod dra;
mod dra_partitions;
mod extremes;
<<<<<<< HEAD
mod left_to_scheduler;
=======
>>>>>>> i57
mod links;
mod measured;
mod memory;
mod moved_pods;
mod nodes;
mod placements;
mod pods;
mod quotas;
mod reading;
mod templates;
mod volume_choice;
mod volume_limits;
mod volumes;
