//! Mistakes as users of JAX make them. Each error names the operation, the numbers and this file.

#![allow(clippy::needless_borrows_for_generic_args, reason = "users write both forms")]

use oxidax::prelude::*;
use oxidax::tree::Function;
use std::sync::{Arc, LazyLock};

/// Returns the error of a mistake, thrown or returned.
fn error_of<T>(mistake: impl FnOnce() -> Result<T, Error>) -> Error {
    match oxidax::catch(mistake).and_then(|inner| inner) {
        Ok(_) => panic!("the mistake has no error"),
        Err(error) => error,
    }
}

fn thrown<T>(mistake: impl FnOnce() -> T) -> Error {
    error_of(|| Ok(mistake()))
}

mod on_cpu {
    use super::*;

    #[test]
    fn every_mistake_has_the_line_of_the_call() {
        let x = || ones([3, 4]);
        let key = || random::key(0);
        let mut failures = Vec::new();
        let mut report = |name: &str, run: &dyn Fn() -> Error| {
            let text = run().to_string();
            if !text.contains("tests/cpu/errors/mistakes.rs:") {
                failures.push(format!("{name}: {text}"));
            }
        };
        // shapes
        report("matmul", &|| thrown(|| x().matmul(&x())));
        report("reshape", &|| thrown(|| x().reshape([5, 2])));
        report("reshape -1 twice", &|| thrown(|| x().reshape([-1, -1])));
        report("reshape -1 indivisible", &|| thrown(|| x().reshape([-1, 5])));
        report("concatenate", &|| thrown(|| concatenate([x(), ones([3, 5])], 0)));
        report("concatenate axis", &|| thrown(|| concatenate([x(), x()], 2)));
        report("concatenate empty", &|| thrown(|| concatenate(Vec::<Array>::new(), 0)));
        report("stack", &|| thrown(|| stack([x(), ones([3, 5])], 0)));
        report("einsum size", &|| thrown(|| einsum("ij,jk->ik", [x(), x()])));
        report("einsum letter", &|| thrown(|| einsum("ij->ik", [x()])));
        report("einsum operands", &|| thrown(|| einsum("ij,jk", [x()])));
        report("einsum bad", &|| thrown(|| einsum("i?j", [x()])));
        report("broadcast_to", &|| thrown(|| broadcast_to(&x(), [3, 5])));
        report("transpose", &|| thrown(|| transpose(&x(), &[0, 0])));
        report("squeeze", &|| thrown(|| squeeze(&x(), &[0])));
        report("expand_dims", &|| thrown(|| expand_dims(&x(), &[5])));
        report("sum axis", &|| thrown(|| x().sum_axes(2)));
        report("sum axis twice", &|| thrown(|| x().sum_axes([0, 0])));
        report("index range", &|| thrown(|| x().index(i![5])));
        report("index too many", &|| thrown(|| x().index(i![0, 0, 0])));
        report("index float", &|| thrown(|| take(&x(), &ones([2]), 0)));
        report("where", &|| thrown(|| where_(gt(ones([3, 4]), 0.0), ones([2]), 0.0)));
        report("split", &|| thrown(|| split(&x(), 2, 0)));
        report("take_along_axis", &|| thrown(|| take_along_axis(&x(), &arange(3), 0)));
        report("dot_general", &|| thrown(|| x().dot(&ones([3]))));
        report("tile", &|| thrown(|| x().dims::<3>()));
        report("huge zeros", &|| thrown(|| zeros([1 << 40, 1 << 40])));
        report("huge iota", &|| thrown(|| iota(DType::I32, usize::MAX)));
        report("huge arange", &|| thrown(|| arange(i64::MAX)));
        report("huge broadcast", &|| thrown(|| broadcast_to(&x(), [1 << 62, 3, 4])));
        report("huge traced", &|| {
            error_of(|| make_program(|_: Array| zeros([1 << 62]), Aval::new(DType::F32, [])))
        });
        report("huge argument", &|| {
            error_of(|| make_program(|x: Array| x, Aval::new(DType::F32, [1 << 62])))
        });
        report("huge eye", &|| thrown(|| eye(1 << 40)));
        report("tile huge", &|| thrown(|| tile(&x(), &[1 << 40, 1 << 40])));
        report("repeat huge", &|| thrown(|| repeat(&x(), 1 << 61, 0)));
        report("pad huge", &|| thrown(|| pad(&x(), [(0, 1usize << 62), (0, 0)])));
        report("normal huge", &|| thrown(|| random::normal(key(), [1 << 61])));
        report("permutation huge", &|| thrown(|| random::permutation(key(), 1usize << 61)));
        report("split huge", &|| thrown(|| random::split(key(), 1usize << 61)));
        // dtypes
        report("bool add", &|| thrown(|| bitwise_and(&x(), &x())));
        report("promote", &|| thrown(|| x().astype(DType::F8E4M3FN) + x().astype(DType::F8E5M2)));
        report("item", &|| error_of(|| x().item::<f32>()));
        report("to_vec", &|| error_of(|| x().to_vec::<i64>()));
        report("from_slice", &|| error_of(|| Array::from_slice(&[1.0f32], [2])));
        report("cholesky", &|| thrown(|| linalg::cholesky(&x())));
        report("eigh", &|| thrown(|| linalg::eigh(&x()).eigenvalues));
        report("inv", &|| thrown(|| linalg::inv(&x())));
        report("det vector", &|| thrown(|| linalg::det(&ones([3]))));
        report("svd bf16", &|| thrown(|| linalg::svd(&x().astype(DType::BF16)).s));
        report("lu vector", &|| thrown(|| linalg::lu(&ones([3])).l));
        report("qr vector", &|| thrown(|| linalg::qr(&ones([3])).q));
        report("fft int", &|| thrown(|| fft(&x(), oxidax::primitives::FftType::Fft, &[4])));
        report("argmax axis", &|| thrown(|| argmax(&x(), 3)));
        report("argmax empty", &|| thrown(|| argmax(&zeros([0]), 0)));
        report("max empty", &|| thrown(|| zeros([0]).max()));
        report("sort axis", &|| thrown(|| sort(&x(), 2)));
        report("top_k", &|| thrown(|| top_k(&x(), 5, -1).0));
        report("clamp", &|| thrown(|| clamp(&x(), &ones([2]), 1.0)));
        report("dynamic_slice", &|| thrown(|| dynamic_slice(&x(), [0], [1])));
        report("dynamic_slice size", &|| thrown(|| dynamic_slice(&x(), [0, 0], [9, 1])));
        report("dynamic_update_slice", &|| {
            thrown(|| dynamic_update_slice(&x(), &ones([9, 9]), [0, 0]))
        });
        report("conv stride", &|| {
            thrown(|| {
                let layer = nn::Conv::new(key(), &[3], 4, 2);
                nn::Conv { strides: vec![0], ..layer }.forward(&ones([1, 5, 4]))
            })
        });
        report("conv dilation", &|| {
            thrown(|| {
                let layer = nn::Conv::new(key(), &[3], 4, 2);
                nn::Conv { dilation: vec![1 << 62], ..layer }.forward(&ones([1, 5, 4]))
            })
        });
        // XLA's CPU compiler ends the process for this product.
        report("wide product of integers", &|| {
            let [row, wide] = [[1, 3], [3, 1 << 31]].map(|shape| Aval::new(DType::I32, shape));
            let product = jit(|x: Array, w: Array| x.matmul(&w));
            error_of(|| product.lower(row, wide)?.compile().map(drop))
        });
        report("conv transpose stride", &|| {
            thrown(|| {
                let layer = nn::ConvTranspose::new(key(), &[3], 4, 2);
                nn::ConvTranspose { strides: vec![0], ..layer }.forward(&ones([1, 5, 4]))
            })
        });
        report("conv channels", &|| {
            thrown(|| nn::Conv::new(key(), &[3], 4, 2).forward(&ones([1, 5, 3])))
        });
        report("linear", &|| thrown(|| nn::Linear::new(key(), 3, 2).forward(&ones([1, 5]))));
        report("embedding", &|| thrown(|| nn::Embedding::new(key(), 3, 2).forward(&ones([1]))));
        report("layer norm", &|| thrown(|| nn::LayerNorm::new(3).forward(&ones([1, 5]))));
        report("attention heads", &|| {
            thrown(|| nn::MultiHeadAttention::new(key(), 10, 3).forward(&ones([1, 5, 10])))
        });
        report("dropout rate", &|| thrown(|| nn::Dropout::new(1.5).forward(&x(), Some(key()))));
        report("loss float labels", &|| {
            thrown(|| nn::softmax_cross_entropy_with_integer_labels(&x(), &ones([3])))
        });
        report("loss one hot int", &|| {
            thrown(|| nn::softmax_cross_entropy(&x(), &ones(([3, 4], DType::I32))))
        });
        report("loss shape", &|| {
            thrown(|| {
                nn::softmax_cross_entropy_with_integer_labels(&x(), &ones(([3, 1], DType::I32)))
            })
        });
        report("accuracy float", &|| thrown(|| nn::accuracy(&x(), &ones([3]))));
        report("accuracy onehot", &|| thrown(|| nn::accuracy(&x(), &x())));
        report("mse", &|| thrown(|| nn::mean_squared_error(&x(), &ones([3]))));
        // transforms
        report("grad int", &|| thrown(|| grad(|x: &Array| x.astype(DType::F32).sum())(&arange(3))));
        report("grad vector", &|| thrown(|| grad(|x: &Array| x * 2.0)(&x())));
        report("grad of int output", &|| {
            thrown(|| grad(|x: &Array| x.sum().astype(DType::I32))(&x()))
        });
        report("vmap sizes", &|| {
            thrown(|| vmap(|a: Array, b: Array| a + b).apply(&ones([2]), &ones([3])))
        });
        report("vmap axis", &|| thrown(|| vmap(|a: Array| a).in_axes(1).apply(&ones([2]))));
        report("vmap scalar", &|| thrown(|| vmap(|a: Array| a).apply(&ones([]))));
        report("scan carry", &|| {
            thrown(|| scan(|c: Array, x: Array| (c.astype(DType::I32), x), ones([]), ones([3])))
        });
        report("scan lengths", &|| {
            thrown(|| {
                scan(|c: Array, (x, _): (Array, Array)| (c, x), ones([]), (ones([3]), ones([4])))
            })
        });
        report("while pred", &|| {
            thrown(|| while_loop(|x: &Array| x.clone(), |x: Array| x, ones([2])))
        });
        report("cond types", &|| {
            thrown(|| {
                cond(gt(ones([]), 0.0), |x: Array| x, |x: Array| x.astype(DType::I32), ones([2]))
            })
        });
        report("cond pred", &|| {
            thrown(|| cond(gt(ones([2]), 0.0), |x: Array| x, |x: Array| x, ones([2])))
        });
        report("fori carry", &|| {
            thrown(|| fori_loop(0, 3, |_, x: Array| concatenate([x.clone(), x], 0), ones([2])))
        });
        report("jit branch", &|| {
            error_of(|| {
                Ok(jit(|x: Array| if x.sum().item::<f32>().unwrap() > 0.0 { x } else { -x })
                    .call(x())?)
            })
        });
        report("jit to_vec", &|| {
            error_of(|| {
                Ok(jit(|x: Array| {
                    let _ = x.to_vec::<f32>();
                    x
                })
                .call(x())?)
            })
        });
        report("jit shapes", &|| error_of(|| Ok(jit(|x: Array| x + ones([7])).call(x())?)));
        report("eager oom", &|| thrown(|| broadcast_to(&ones([]), [1 << 21, 1 << 21])));
        report("iota oom", &|| thrown(|| iota(DType::F32, 1 << 45)));
        report("zeros oom", &|| thrown(|| zeros([1 << 45])));
        report("labels", &|| {
            error_of(|| {
                Ok(jit(|l: Array| {
                    debug::check_labels(&l, 10);
                    l + 1
                })
                .call(array![1, -1, 4])?)
            })
        });
        report("labels 99", &|| thrown(|| debug::check_labels(&array![1, 99, 4], 10)));
        report("matmul oom", &|| thrown(|| ones([1 << 21, 1]).matmul(&ones([1, 1 << 21]))));
        report("recursion", &|| {
            fn endless(x: Array) -> Array {
                jit(endless).apply(&x) + 1.0
            }
            error_of(|| Ok(jit(endless).call(ones([]))?))
        });
        report("recursion eager", &|| {
            fn endless(x: Array) -> Array {
                jit(endless).apply(&x) + 1.0
            }
            thrown(|| disable_jit(|| endless(ones([]))))
        });
        report("recursion static", &|| {
            static F: LazyLock<Jit<'static, (Array,), Array>> =
                LazyLock::new(|| jit(|x: Array| F.apply(&x)).name("looped"));
            error_of(|| Ok(F.call(ones([]))?))
        });
        report("recursion grad", &|| {
            fn endless(x: &Array) -> Array {
                grad(endless)(x)
            }
            thrown(|| grad(endless)(&ones([])))
        });
        report("recursion vmap", &|| {
            fn endless(x: Array) -> Array {
                vmap(endless).apply(&x)
            }
            thrown(|| vmap(endless).apply(&ones([2])))
        });
        report("recursion scan", &|| {
            fn endless(x: Array) -> Array {
                scan(|c: Array, _: Array| (endless(c.clone()), c), x, ones([2])).0
            }
            thrown(|| endless(ones([])))
        });
        report("recursion remat", &|| {
            fn endless(x: Array) -> Array {
                remat(endless).apply((x,))
            }
            thrown(|| endless(ones([])))
        });
        // captured tracer
        report("leak", &|| {
            let kept = Arc::new(std::sync::Mutex::new(None));
            let keep = kept.clone();
            let _ = jit(move |x: Array| {
                *keep.lock().unwrap() = Some(x.clone());
                x
            })
            .call(x());
            let leaked: Array = kept.lock().unwrap().take().unwrap();
            thrown(|| leaked + 1.0)
        });
        report("tree zip", &|| {
            thrown(|| tree::zip_map(&(x(), x()), &(x(), ones([2])), |a, b| a + b))
        });
        // random
        report("choice", &|| {
            thrown(|| {
                random::choice_with(
                    key(),
                    [9],
                    &arange(3),
                    random::ChoiceOptions { replace: false, ..Default::default() },
                )
            })
        });
        report("mesh", &|| error_of(|| Mesh::new(devices()?, [("data", 3)])));
        report("psum unbound", &|| thrown(|| psum(&x(), "nope")));
        report("nan_check", &|| thrown(|| debug::nan_check(|| oxidax::prelude::log(-x()))));
        report("a scalar as a list", &|| thrown(|| debug::callback(|_| (), &x().sum())));
        report("compiled mismatch", &|| {
            error_of(|| Ok(jit(|x: Array| x).lower(x())?.compile()?.call(ones([2]))?))
        });
        report("optimizer", &|| {
            error_of(|| {
                let adam = optim::adam(0.1);
                let state = adam.init(&x());
                Ok(adam.update(&ones([2]), &state, &x()))
            })
        });
        assert!(failures.is_empty(), "without a line:\n{}", failures.join("\n"));
    }
}
