"""The kernels that features estimate, exactly: closed forms and double sums. Arrays in, arrays out, float64.

For tests, for small data, and for `kernel_error`, which sets a feature map beside them. A is Mroueh,
Voinea and Poggio, "Learning with Group Invariant Features: A Kernel Perspective" (NIPS 2015); B is Raj, Kumar, Mroueh,
Fletcher and Schoelkopf, "Local Group Invariant Representations via Orbit Embeddings" (AISTATS 2017).

    A  (1)            K(x, z), twice averaged over the group     orbits.orbit_kernel
    A  section 3      psi and its integral over tau              cdf.template_integral, cdf.discretisation_bound
    A  Theorem 1      K_s = s - c d_G                            cdf.truncated_kernel, acceptance, group_distance
    A  Theorem 2      what m templates are worth                 bounds.cdf_bound
    A  section 4      1-NN is 1-NN in orbit energy distance      cdf.energy_distance
    B  (3), (4)       k_{q,G} and the Haar kernel                orbits.orbit_kernel, and closed forms in `closed`
    B  (6)            estimated from r elements; debiased        bounds.debiased
    B  (7)            variance of random Fourier features        bounds.rff_variance
    B  Theorem 3.1    uniform error                              bounds.rff_bound, bounds.group_bound
"""
