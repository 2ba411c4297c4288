//! Which PCI devices actors can use: a table of classes, vendors and devices.
//!
//! The class alone is ambiguous: class 12 (processing accelerator) contains GPUs, NPUs, FPGAs, and engines that
//! compress or encrypt; class 03 contains GPUs and console display adapters. Each row names its source. An unlisted
//! device of class 12 or of the co-processor class is an `Accelerator`, with its vendor.

/// The PCI classes that a row of the table matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Any class: the ids identify the device.
    Any,
    /// A display controller, class 03.
    Display,
    /// Multimedia, class 04.
    Multimedia,
    /// A processing accelerator, class 12 without engines that move data (1201), or a co-processor, class 0b40.
    Compute,
    /// A co-processor, class 0b40.
    CoProcessor,
}

/// A type of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Gpu,
    Npu,
    Fpga,
    Accelerator,
    /// Not usable by actors.
    Nothing,
}

impl Type {
    fn name(self) -> Option<&'static str> {
        match self {
            Self::Gpu => Some("GPU"),
            Self::Npu => Some("NPU"),
            Self::Fpga => Some("FPGA"),
            Self::Accelerator => Some("Accelerator"),
            Self::Nothing => None,
        }
    }
}

/// One row: a vendor, ranges of its device ids, and a class.
struct Row {
    vendor: u16,
    /// Inclusive; empty for all devices.
    devices: &'static [(u16, u16)],
    class: Class,
    type_: Type,
}

const fn row(vendor: u16, devices: &'static [(u16, u16)], class: Class, type_: Type) -> Row {
    Row { vendor, devices, class, type_ }
}

/// All devices of a vendor.
const ALL: &[(u16, u16)] = &[];

const AMD_ATI: u16 = 0x1002;
const AMD: u16 = 0x1022;
const NVIDIA: u16 = 0x10de;
const INTEL: u16 = 0x8086;
const HUAWEI: u16 = 0x19e5;
const AMAZON: u16 = 0x1d0f;

/// The table; the first matching row applies. `pci.ids` is the list of pci-ids.ucw.cz; paths are those of Linux.
const TABLE: &[Row] = &[
    // ATI's graphics without compute units: Rage, R100 to R500 and their successors in chipsets, among them the console
    // adapters ES1000 (515e, 5969), RN50 and Rage XL. Source: pci.ids; drivers/gpu/drm/radeon has no compute rings for
    // these families.
    row(
        AMD_ATI,
        &[
            (0x3000, 0x5fff),
            (0x7100, 0x72ff),
            (0x7834, 0x7835),
            (0x791e, 0x7942),
            (0x796c, 0x796f),
            (0x9610, 0x9616),
            (0x9710, 0x9715),
        ],
        Class::Display,
        Type::Nothing,
    ),
    // All others compute, Instinct MI300 and later with class 12. Source: drivers/gpu/drm/amd/amdgpu/amdgpu_drv.c.
    row(AMD_ATI, ALL, Class::Display, Type::Gpu),
    row(AMD_ATI, ALL, Class::Compute, Type::Gpu),
    // Ryzen AI, with a class of signal processors. Source: drivers/accel/amdxdna/amdxdna_pci_drv.c.
    row(AMD, &[(0x1502, 0x1502), (0x17f0, 0x17f3), (0x1b0a, 0x1b0c)], Class::Any, Type::Npu),
    // NVIDIA's graphics before CUDA, and those in chipsets. Source: pci.ids; CUDA begins with G80 (0190).
    row(
        NVIDIA,
        &[(0x0000, 0x018f), (0x01a0, 0x03ff), (0x0530, 0x053f), (0x07e0, 0x07e5)],
        Class::Display,
        Type::Nothing,
    ),
    row(NVIDIA, ALL, Class::Display, Type::Gpu),
    // Intel's NPUs. Source: drivers/accel/ivpu/ivpu_drv.h.
    row(
        INTEL,
        &[
            (0x643e, 0x643e),
            (0x7d1d, 0x7d1d),
            (0xad1d, 0xad1d),
            (0xb03e, 0xb03e),
            (0xd71d, 0xd71d),
            (0xfd3e, 0xfd3e),
        ],
        Class::Any,
        Type::Npu,
    ),
    // Intel's FPGA cards. Source: drivers/fpga/dfl-pci.c; OFS/opae-sdk, opae.cfg (af00); DPDK,
    // drivers/baseband/fpga_5gnr_fec (0d8f).
    row(
        INTEL,
        &[
            (0x09c4, 0x09c5),
            (0x0b2b, 0x0b2c),
            (0x0b30, 0x0b31),
            (0x0d8f, 0x0d90),
            (0xaf00, 0xaf01),
            (0xbcbd, 0xbcbd),
            (0xbcbf, 0xbcc1),
            (0xbcce, 0xbccf),
        ],
        Class::Any,
        Type::Fpga,
    ),
    // Xeon Phi. Source: drivers/misc/mic (up to Linux 5.9).
    row(INTEL, &[(0x2250, 0x227f)], Class::Compute, Type::Accelerator),
    // Graphics before generation 7, which do not compute. Source: include/drm/intel/pciids.h.
    row(
        INTEL,
        &[
            (0x0042, 0x0046),
            (0x0102, 0x0126),
            (0x0be0, 0x0bef),
            (0x1132, 0x1132),
            (0x2562, 0x2572),
            (0x2582, 0x2592),
            (0x2772, 0x2776),
            (0x2782, 0x2792),
            (0x27a2, 0x27ae),
            (0x2972, 0x2a43),
            (0x2e02, 0x2e93),
            (0x3577, 0x358e),
            (0x4102, 0x4102),
            (0x7121, 0x7125),
            (0x8108, 0x8109),
            (0xa001, 0xa012),
        ],
        Class::Display,
        Type::Nothing,
    ),
    row(INTEL, ALL, Class::Display, Type::Gpu),
    // QuickAssist: compression and encryption. Source: drivers/crypto/intel/qat.
    row(INTEL, ALL, Class::CoProcessor, Type::Nothing),
    // Ascend 310, 910 and successors; the other accelerators are engines of Kunpeng processors (ZIP a250, SEC a255,
    // HPRE a258). Source: pci.ids, and drivers/crypto/hisilicon.
    row(HUAWEI, &[(0xd000, 0xdfff)], Class::Compute, Type::Npu),
    row(HUAWEI, &[(0xa000, 0xafff)], Class::Any, Type::Nothing),
    // F1 and F2 instances, with the class of a memory controller: without an image (1042, 9048), and with one, whose
    // id is the developer's choice; Inferentia and Trainium, with the class of a system peripheral. Source:
    // aws/aws-fpga; aws-neuron-driver, neuron_pci.c.
    row(AMAZON, &[(0x1042, 0x1042), (0x9048, 0x9048), (0xf000, 0xffff)], Class::Any, Type::Fpga),
    row(
        AMAZON,
        &[(0x7064, 0x7067), (0x7164, 0x7164), (0x7264, 0x7264), (0x7364, 0x7366), (0x7564, 0x7565)],
        Class::Any,
        Type::Npu,
    ),
    // Google's TPUs v2 to v6e. Source: jax, jax/_src/hardware_utils.py.
    row(
        0x1ae0,
        &[
            (0x0027, 0x0027),
            (0x0056, 0x0056),
            (0x005e, 0x005e),
            (0x0062, 0x0063),
            (0x006f, 0x006f),
            (0x0076, 0x0076),
        ],
        Class::Any,
        Type::Npu,
    ),
    row(0x1ae0, ALL, Class::Compute, Type::Npu),
    // The Edge TPU (Coral). Source: drivers/staging/gasket/apex_driver.c (up to Linux 5.13).
    row(0x1ac1, &[(0x089a, 0x089a)], Class::Any, Type::Npu),
    // Qualcomm Cloud AI. Source: drivers/accel/qaic/qaic_drv.c.
    row(0x17cb, &[(0xa080, 0xa080), (0xa100, 0xa110)], Class::Any, Type::Npu),
    // Habana Gaudi. Source: drivers/accel/habanalabs.
    row(0x1da3, ALL, Class::Any, Type::Npu),
    // FPGAs of Xilinx, Altera, Achronix and Lattice; boards of Silicom with Intel's. Sound cards of RME have ids of
    // Xilinx. Source: pci.ids; drivers/fpga/dfl-pci.c.
    row(0x10ee, ALL, Class::Multimedia, Type::Nothing),
    row(0x10ee, ALL, Class::Any, Type::Fpga),
    row(0x1172, ALL, Class::Any, Type::Fpga),
    row(0x1204, ALL, Class::Any, Type::Fpga),
    row(0x1b59, ALL, Class::Any, Type::Fpga),
    row(0x1c2c, &[(0x1000, 0x1001)], Class::Any, Type::Fpga),
    // Makers of NPUs. Source: pci.ids.
    row(0x1d22, ALL, Class::Compute, Type::Npu), // Baidu Kunlun
    row(0x1d95, ALL, Class::Compute, Type::Npu), // Graphcore
    row(0x1de0, ALL, Class::Compute, Type::Npu), // Groq
    row(0x1e36, ALL, Class::Compute, Type::Npu), // Enflame
    row(0x1e52, ALL, Class::Compute, Type::Npu), // Tenstorrent
    row(0x1e60, ALL, Class::Compute, Type::Npu), // Hailo
    row(0x1ed2, ALL, Class::Compute, Type::Npu), // FuriosaAI
    row(0x1eff, ALL, Class::Compute, Type::Npu), // Rebellions
    row(0x1f9d, ALL, Class::Compute, Type::Npu), // Axelera
    row(0x1fe9, ALL, Class::Compute, Type::Npu), // MemryX
    row(0xcabc, ALL, Class::Compute, Type::Npu), // Cambricon
    // Makers of GPUs. Source: pci.ids.
    row(0x1ed5, ALL, Class::Display, Type::Gpu), // Moore Threads
    row(0x1ed5, ALL, Class::Compute, Type::Gpu),
    row(0x1e3e, ALL, Class::Compute, Type::Gpu), // Iluvatar
    row(0x1ee0, ALL, Class::Compute, Type::Gpu), // Biren
    row(0x9999, ALL, Class::Compute, Type::Gpu), // MetaX
    row(
        0x1d94,
        &[(0x53b7, 0x53b7), (0x54b7, 0x54b7), (0x55b7, 0x55b7), (0x62b7, 0x62b7)],
        Class::Any,
        Type::Gpu,
    ), // Hygon DCU
    // Data processing units of Pensando, whose functions for actors are network interfaces. Source: pci.ids.
    row(0x1dd8, ALL, Class::Compute, Type::Nothing),
];

/// Vendors by PCI SIG id, in their common spelling.
const VENDORS: [(u16, &str); 37] = [
    (AMD_ATI, "amd"),
    (AMD, "amd"),
    (NVIDIA, "nvidia"),
    (0x10ee, "xilinx"),
    (0x1172, "altera"),
    (0x1204, "lattice"),
    (0x14e4, "broadcom"),
    (0x15b3, "mellanox"),
    (0x17cb, "qualcomm"),
    (HUAWEI, "huawei"),
    (0x1ac1, "google"),
    (0x1ae0, "google"),
    (0x1af4, "virtio"),
    (0x1b59, "achronix"),
    (0x1bcf, "nec"),
    (0x1c2c, "silicom"),
    (AMAZON, "amazon"),
    (0x1d22, "baidu"),
    (0x1d94, "hygon"),
    (0x1d95, "graphcore"),
    (0x1da3, "habana"),
    (0x1dd8, "pensando"),
    (0x1de0, "groq"),
    (0x1e36, "enflame"),
    (0x1e3e, "iluvatar"),
    (0x1e52, "tenstorrent"),
    (0x1e60, "hailo"),
    (0x1ed2, "furiosa"),
    (0x1ed5, "moorethreads"),
    (0x1ee0, "biren"),
    (0x1eff, "rebellions"),
    (0x1f9d, "axelera"),
    (0x1fe9, "memryx"),
    (INTEL, "intel"),
    (0x9999, "metax"),
    (0xcabc, "cambricon"),
    (0x177d, "marvell"),
];

/// The type of a device that an actor could use; `None` for bridges, disks, sound, engines of processors, and console
/// graphics.
///
/// `class` is the class and subclass, such as `0x0302`.
pub fn device_type(class: u16, vendor: u16, device: u16) -> Option<&'static str> {
    let (base, sub) = (class >> 8, class & 0xff);
    if base == 0x02 {
        return Some("NIC");
    }
    let is_of = |row: &&Row| {
        let has_class = match row.class {
            Class::Any => true,
            Class::Display => base == 0x03,
            Class::Multimedia => base == 0x04,
            Class::Compute => (base == 0x12 && sub != 0x01) || (base, sub) == (0x0b, 0x40),
            Class::CoProcessor => (base, sub) == (0x0b, 0x40),
        };
        let ranges = row.devices;
        let has_device =
            ranges.is_empty() || ranges.iter().any(|(first, last)| (*first..=*last).contains(&device));
        row.vendor == vendor && has_class && has_device
    };
    if let Some(row) = TABLE.iter().find(is_of) {
        return row.type_.name();
    }
    match (base, sub) {
        // A 3D controller without a display is for computing.
        (0x03, 0x02) => Some("GPU"),
        // SDXI moves data. Source: the PCI Code and ID Assignment Specification.
        (0x12, 0x01) => None,
        (0x12, _) | (0x0b, 0x40) => Some("Accelerator"),
        _ => None,
    }
}

/// The vendor, if it is listed.
pub fn vendor(id: u16) -> Option<&'static str> {
    VENDORS.iter().find(|(known, _)| *known == id).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_told_apart_by_class_vendor_and_device() {
        for (class, ids, expected, what) in [
            (0x0302, "10de:2330", "GPU", "H100"),
            (0x0300, "10de:1b81", "GPU", "GTX 1070"),
            (0x0300, "10de:0240", "-", "GeForce 6150, in a chipset"),
            (0x0680, "10de:22a3", "-", "NVSwitch"),
            (0x0403, "10de:10f0", "-", "sound of a GPU"),
            (0x1200, "1002:74a1", "GPU", "Instinct MI300X"),
            (0x1200, "1002:74a5", "GPU", "Instinct MI325X"),
            (0x1200, "1002:75a0", "GPU", "Instinct MI350X"),
            (0x0380, "1002:740c", "GPU", "Instinct MI250X"),
            (0x0300, "1002:6863", "GPU", "Vega Frontier"),
            (0x0300, "1002:164e", "GPU", "graphics of a Ryzen"),
            (0x0300, "1002:515e", "-", "ES1000"),
            (0x0300, "1002:5969", "-", "ES1000"),
            (0x0300, "1002:4752", "-", "Rage XL"),
            (0x0300, "1a03:2000", "-", "ASPEED"),
            (0x0300, "102b:0538", "-", "Matrox G200eW3"),
            (0x0300, "19e5:1711", "-", "Hi1710"),
            (0x0300, "1234:1111", "-", "QEMU"),
            (0x0380, "8086:0bd5", "GPU", "Data Center GPU Max"),
            (0x0300, "8086:4680", "GPU", "UHD 770"),
            (0x0300, "8086:0102", "-", "HD 2000"),
            (0x1180, "1022:17f0", "NPU", "Ryzen AI"),
            (0x1080, "1022:1649", "-", "security processor"),
            (0x1201, "1022:14dc", "-", "SDXI"),
            (0x1201, "1002:1234", "-", "SDXI of a vendor whose accelerators are GPUs"),
            (0x1200, "8086:b03e", "NPU", "Panther Lake NPU"),
            (0x1200, "8086:7d1d", "NPU", "Meteor Lake NPU"),
            (0x0b40, "8086:4940", "-", "QuickAssist"),
            (0x0b40, "8086:225c", "Accelerator", "Xeon Phi"),
            (0x1200, "8086:09c4", "FPGA", "PAC Arria 10"),
            (0x1200, "8086:bcce", "FPGA", "N6000"),
            (0x1200, "8086:0d8f", "FPGA", "5G FEC of N3000"),
            (0x1200, "8086:af00", "FPGA", "Open FPGA Stack"),
            (0x1200, "8086:0d5c", "Accelerator", "ACC100"),
            (0x1200, "19e5:d802", "NPU", "Ascend 910B"),
            (0x1200, "19e5:a250", "-", "compression of a Kunpeng"),
            (0x1000, "19e5:a255", "-", "encryption of a Kunpeng"),
            (0x1200, "1da3:1020", "NPU", "Gaudi 2"),
            (0x1200, "17cb:a100", "NPU", "Cloud AI 100"),
            (0x0880, "1d0f:7364", "NPU", "Trainium 2"),
            (0x0880, "1d0f:7564", "NPU", "Trainium 3"),
            (0x0880, "1d0f:7565", "NPU", "Trainium 3"),
            (0x0580, "1d0f:f000", "FPGA", "F1"),
            (0x0580, "1d0f:1042", "FPGA", "F1 without an image"),
            (0x0580, "1d0f:9048", "FPGA", "F2 without an image"),
            (0x0580, "1d0f:f0ff", "FPGA", "an image of F2"),
            (0x0108, "1d0f:8061", "-", "a disk of EC2"),
            (0x0200, "1d0f:ec20", "NIC", "Elastic Network Adapter"),
            (0x0880, "1ae0:0063", "NPU", "TPU v5e"),
            (0x0200, "1ae0:0042", "NIC", "gVNIC"),
            (0x1200, "10ee:5004", "FPGA", "Alveo U250"),
            (0x0700, "10ee:9038", "FPGA", "Xilinx XDMA"),
            (0x0401, "10ee:3fc6", "-", "RME Hammerfall, a sound card"),
            (0x1200, "1e52:401e", "NPU", "Tenstorrent Wormhole"),
            (0x0b40, "1e60:2864", "NPU", "Hailo-8"),
            (0x0b40, "1bcf:001c", "Accelerator", "NEC Vector Engine"),
            (0x1200, "1234:5678", "Accelerator", "an unknown vendor"),
            (0x0604, "8086:352a", "-", "a bridge"),
            (0x0108, "144d:a80a", "-", "a disk"),
        ] {
            let (vendor, device) = ids.split_once(':').unwrap();
            let id = |text: &str| u16::from_str_radix(text, 16).unwrap();
            assert_eq!(device_type(class, id(vendor), id(device)).unwrap_or("-"), expected, "{ids} {what}");
        }
    }

    #[test]
    fn ranges_are_in_order_and_each_vendor_with_devices_has_a_name() {
        for row in TABLE {
            assert!(row.devices.iter().all(|(first, last)| first <= last), "{:04x}", row.vendor);
            assert!(row.devices.is_sorted(), "{:04x}", row.vendor);
            assert!(vendor(row.vendor).is_some(), "{:04x}", row.vendor);
        }
    }
}
