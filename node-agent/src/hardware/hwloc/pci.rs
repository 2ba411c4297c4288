//! Classification of PCI devices, by class and vendor.

use hwlocality::object::attributes::PCIDeviceAttributes;

const INTEL: u16 = 0x8086;

/// Vendors by PCI SIG id, in their common spelling.
const VENDORS: [(u16, &str); 14] = [
    (0x1002, "amd"),
    (0x1022, "amd"),
    (0x10de, "nvidia"),
    (0x10ee, "xilinx"),
    (0x1172, "altera"),
    (0x14e4, "broadcom"),
    (0x15b3, "mellanox"),
    (0x1ae0, "google"),
    (0x1af4, "virtio"),
    (0x1bcf, "nec"),
    (0x1d0f, "amazon"),
    (0x1da3, "habana"),
    (0x1e52, "tenstorrent"),
    (INTEL, "intel"),
];

/// Intel's FPGA cards have the class of a generic accelerator.
const INTEL_FPGAS: [u16; 6] = [0x09c4, 0x09c5, 0x0b30, 0x0b31, 0xbcce, 0xbccf];

/// The type of a device that an actor could use; `None` for bridges, disks, sound, and console graphics.
pub fn device_type(pci: &PCIDeviceAttributes) -> Option<&'static str> {
    let (class, vendor, device) = (pci.class_id(), pci.vendor_id(), pci.device_id());
    // A VGA controller is a GPU if its vendor makes GPUs; servers have one for their console, too.
    let makes_gpus = matches!(vendor, 0x10de | 0x1002 | INTEL);
    Some(match (class >> 8, class & 0xff) {
        (0x02, _) => "NIC",
        _ if matches!(vendor, 0x10ee | 0x1172) || vendor == INTEL && INTEL_FPGAS.contains(&device) => "FPGA",
        // Amazon's F1, whose class is that of a memory controller.
        (0x05, 0x80) if vendor == 0x1d0f && (0xf000..=0xf01f).contains(&device) => "FPGA",
        (0x03, 0x02) => "GPU",
        (0x03, _) if makes_gpus => "GPU",
        (0x12 | 0x0b, _) if matches!(vendor, 0x1da3 | 0x1ae0 | 0x1e52) => "NPU",
        (0x12, _) | (0x0b, 0x40) => "Accelerator",
        _ => return None,
    })
}

/// The vendor, if it is known.
pub fn vendor(id: u16) -> Option<&'static str> {
    VENDORS.iter().find(|(known, _)| *known == id).map(|(_, name)| *name)
}

/// An address in the form of `lspci -D`: `0000:3b:00.0`.
pub fn address(pci: &PCIDeviceAttributes) -> String {
    format!("{:04x}:{:02x}:{:02x}.{:x}", pci.domain(), pci.bus_id(), pci.bus_device(), pci.function())
}

/// An address in the form of [`address`]; other tools print `00000000:3B:00.0`, or omit the domain.
pub fn normal_address(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let (domain, rest) = match lower.split(':').count() {
        2 => ("", lower.as_str()),
        _ => lower.split_once(':').unwrap_or(("", &lower)),
    };
    format!("{:0>4}:{rest}", domain.trim_start_matches('0'))
}

/// Whether a text has the form `0000:3b:00.0`.
pub fn is_address(text: &str) -> bool {
    let Some((domain, rest)) = text.split_once(':') else { return false };
    let Some((bus, rest)) = rest.split_once(':') else { return false };
    let Some((slot, function)) = rest.split_once('.') else { return false };
    let hex =
        |part: &str, length: usize| part.len() >= length && part.bytes().all(|it| it.is_ascii_hexdigit());
    hex(domain, 4) && hex(bus, 2) && hex(slot, 2) && hex(function, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_one_form() {
        for text in ["0000:3b:00.0", "00000000:3B:00.0", "3b:00.0"] {
            assert_eq!(normal_address(text), "0000:3b:00.0");
        }
        assert_eq!(normal_address("00010000:01:00.0"), "10000:01:00.0");
        assert!(is_address("0000:3b:00.0") && is_address("10000:01:00.0"));
        for text in ["", "????", "0000:3b:00", "3b:00.0", "0000:3g:00.0"] {
            assert!(!is_address(text), "{text}");
        }
        assert!(!is_address(&normal_address("?")));
    }
}
