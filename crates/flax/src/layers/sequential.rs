//! Layers applied one after the other.

use super::*;
use oxidax::prelude::*;

/// A layer from one array to one array.
///
/// Implement it for your own layers to use them in [`Sequential`] and [`WeightNorm`].
pub trait Layer {
    /// Applies the layer to `x`.
    #[track_caller]
    fn forward(&self, x: &Array) -> Array;
}

macro_rules! layers {
    ($($layer:ty),* $(,)?) => {$(
        impl Layer for $layer {
            #[track_caller]
            fn forward(&self, x: &Array) -> Array {
                <$layer>::forward(self, x)
            }
        }
    )*};
}

layers!(
    nn::Linear,
    nn::Embedding,
    nn::Conv,
    nn::ConvTranspose,
    nn::LayerNorm,
    nn::RmsNorm,
    nn::GroupNorm,
    nn::Mlp,
    nn::GatedMlp,
    nn::MultiHeadAttention,
    nn::QuantizedLinear,
    LinearGeneral,
    Einsum,
    Lora,
    LoraLinear,
    PRelu,
    InstanceNorm,
    ConvLocal,
);

impl Layer for Static<nn::Activation> {
    #[track_caller]
    fn forward(&self, x: &Array) -> Array {
        self.0.forward(x)
    }
}

impl Layer for Static<fn(&Array) -> Array> {
    #[track_caller]
    fn forward(&self, x: &Array) -> Array {
        (self.0)(x)
    }
}

impl<L: Layer> Layer for Vec<L> {
    #[track_caller]
    fn forward(&self, x: &Array) -> Array {
        self.iter().fold(x.clone(), |x, layer| layer.forward(&x))
    }
}

impl<L: Layer, const N: usize> Layer for [L; N] {
    #[track_caller]
    fn forward(&self, x: &Array) -> Array {
        self.iter().fold(x.clone(), |x, layer| layer.forward(&x))
    }
}

impl<L: Layer> Layer for Box<L> {
    #[track_caller]
    fn forward(&self, x: &Array) -> Array {
        (**self).forward(x)
    }
}

impl<L: Layer> Layer for Option<L> {
    #[track_caller]
    fn forward(&self, x: &Array) -> Array {
        self.as_ref().map_or_else(|| x.clone(), |layer| layer.forward(x))
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: Layer),*> Layer for ($($name,)*) {
            #[track_caller]
            #[allow(non_snake_case, reason = "each type parameter names its layer too")]
            fn forward(&self, x: &Array) -> Array {
                let ($($name,)*) = self;
                let x = x.clone();
                $(let x = $name.forward(&x);)*
                x
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);

/// Layers applied one after the other: a tuple, a list or an array of layers.
///
/// Tuples nest, so that a tuple of tuples has any number of layers.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::Sequential;
/// let y = eval_shape(
///     |key: random::Key, x: Array| {
///         let [hidden, head] = key.split();
///         let relu = Static(nn::Activation::Relu);
///         let normalize: Static<fn(&Array) -> Array> = Static(|x| softmax(x, -1));
///         let layers = (nn::Linear::new(hidden, 8, 16), relu, nn::Linear::new(head, 16, 4));
///         Sequential::new((layers, normalize)).forward(&x)
///     },
///     (random::Key::of_type(), Aval::new(DType::F32, [2, 8])),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[2,4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Sequential<L> {
    /// The layers, first to last.
    pub layers: L,
}

impl<L: Layer> Sequential<L> {
    /// Creates a network from its layers.
    pub fn new(layers: L) -> Sequential<L> {
        Sequential { layers }
    }

    /// Applies the layers, first to last.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        self.layers.forward(x)
    }
}

impl<L: Layer> Layer for Sequential<L> {
    #[track_caller]
    fn forward(&self, x: &Array) -> Array {
        self.layers.forward(x)
    }
}
