//! Serialization of compiled functions, for other processes and other machines.

use super::call_refs::CallRefs;
use super::compiled::Compiled;
use super::explained::CallNames;
use super::file_format::ProgramFile;
use super::specialization::Specialization;
use super::tree_description::TreeDescription;
use crate::core::trace::RefUses;
use crate::core::{Array, Aval, Error, Loc, TreeError};
use crate::runtime::Executable;
use crate::tree::{
    Args, Arguments, Example, Examples, Signature, Tree, TreeDef, leaves_of, rebuild, rooted,
};
use std::sync::Arc;

impl<A: Args, O: Tree> Compiled<A, O> {
    /// Serializes the function. [`Compiled::deserialize`] loads it in any process on a machine with
    /// the same plugin and devices of the same kind.
    ///
    /// The bytes hold the plugin's machine code, the types and shardings of arguments and results,
    /// and the arrays that the function captured. A function compiled for a topology runs on
    /// machines with such devices, at least as many.
    ///
    /// # Errors
    /// [`Error::Plugin`] if it calls closures of this process (callbacks, prints);
    /// [`Error::Runtime`] if the plugin cannot serialize programs.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let x = Aval::new(DType::F32, [1024]);
    /// let sine = jit(|x: Array| sin(&x)).lower(&x)?.compile_for(&Topology::named("v5e:1x1")?)?;
    /// std::fs::write("sine.v5e", sine.serialize()?).expect("the folder is writable");
    /// // On a machine with a TPU, in a program without the function:
    /// let bytes = std::fs::read("sine.v5e").expect("the file exists");
    /// let sine = Compiled::<(Array,), Array>::deserialize(&bytes, &x, &x)?;
    /// let y = sine.call(&ones([1024]))?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "export")]
    #[doc(alias = "serialize_executable")]
    pub fn serialize(&self) -> Result<Vec<u8>, Error> {
        self.to_file()
    }

    /// Loads a serialized function. `arguments` and `results` are examples of its arguments and
    /// results: arrays, or only types.
    ///
    /// A function compiled for one device runs on the
    /// [default device](crate::parallel::default_device), a function compiled for a mesh on the
    /// devices with the same ids.
    ///
    /// The bytes hold machine code: load only bytes that you trust. Changes are detected, the
    /// author is not verified.
    ///
    /// # Errors
    /// [`Error::Tree`] with the first difference to the arguments or results; [`Error::Plugin`] if
    /// the bytes are damaged, or were compiled for another platform, plugin, kind or number of
    /// devices, or processor; [`Error::Runtime`] if the plugin refuses them.
    #[track_caller]
    pub fn deserialize(
        bytes: &[u8],
        arguments: impl Examples<A>,
        results: impl Example<O>,
    ) -> Result<Compiled<A, O>, Error> {
        let (arguments, results) = (arguments.examples(), results.example());
        let view = Arguments::<A>(arguments.refs());
        let ProgramFile { function, program, captures, executable } =
            ProgramFile::from_bytes(bytes)?;
        for (side, expected, example) in [
            ("arguments", &function.arguments, TreeDescription::of(&view)),
            ("results", &function.results, TreeDescription::of(&results)),
        ] {
            if let Some(difference) = expected.difference(&example) {
                let name = &function.name;
                return Err(Error::Tree(Box::new(TreeError {
                    path: "$".into(),
                    message: format!("`{name}` was compiled for other {side}: {difference}"),
                    loc: Loc::caller(),
                    help: Some(format!("give {side} of the types that it was compiled for")),
                })));
            }
        }
        let signature = Signature::of(&view);
        let mut leaves = leaves_of(&view).into_iter();
        let avals: Vec<Vec<Arc<Aval>>> = A::leaf_counts(arguments.refs())
            .into_iter()
            .map(|n| leaves.by_ref().take(n).map(|leaf| leaf.shared_aval().clone()).collect())
            .collect();
        let captured = captures.iter().map(Array::shared_aval);
        let inputs = avals.iter().flatten().chain(captured);
        let inputs: Vec<Aval> = inputs.map(|aval| (**aval).clone()).collect();
        let outputs: Vec<Arc<Aval>> =
            leaves_of(&results).iter().map(|leaf| leaf.shared_aval().clone()).collect();
        let executable =
            Executable::deserialize(&function.name, &executable, &inputs, outputs.clone())?;
        let template = rebuild(&results, outputs.into_iter().map(Array::of_shared_type).collect());
        let refs = CallRefs::new(&RefUses::default());
        let specialization = Specialization::new(executable, template, &captures, &avals, refs)?;
        let paths = |paths: &[String]| paths.iter().map(|path| rooted(path)).collect();
        let names = CallNames {
            plan: specialization.executable.plan(),
            arguments: paths(signature.paths()),
            results: paths(TreeDef::of(specialization.template()).paths()),
        };
        Ok(Compiled::loaded(specialization, signature, program, captures, names))
    }
}
