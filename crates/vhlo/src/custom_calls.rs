//! The targets of custom calls.

use crate::entries::Attribute;
use crate::module::{Operation, PortableArtifact};
use std::collections::BTreeSet;

impl PortableArtifact {
    /// Returns the names of the functions that custom calls of the module call, each once, in
    /// order.
    ///
    /// ```
    /// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/linalg.bc");
    /// let artifact = oxidax_vhlo::PortableArtifact::read(&std::fs::read(file)?)?;
    /// assert!(artifact.custom_call_targets().contains("lapack_ssyevd_ffi"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn custom_call_targets(&self) -> BTreeSet<&str> {
        let mut targets = BTreeSet::new();
        self.add_targets(&self.root, &mut targets);
        targets
    }

    fn add_targets<'m>(&'m self, operation: &Operation, targets: &mut BTreeSet<&'m str>) {
        let name = operation.properties.iter().find(|(name, _)| *name == "call_target_name");
        if let Some(Attribute::String(name)) = name.and_then(|(_, id)| self.attributes.get(*id)) {
            targets.insert(name);
        }
        for inner in operation.regions.iter().flat_map(|region| &region.operations) {
            self.add_targets(inner, targets);
        }
    }
}
