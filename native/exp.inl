// Included inside an unnamed namespace of an instruction set's unit, after its simd_*.hpp.

// e^x to 2 ulp; 0 far below the least normal, inf above the largest. Cephes' reduction and polynomial.
inline F exp(F x) {
    x = min(set1(100.0f), max(set1(-110.0f), x));  // in this order a NaN stays one
    const F n = nearest(mul(x, set1(1.44269504088896341f)));
    F r = fnma(n, set1(0.693359375f), x);
    r = fnma(n, set1(-2.12194440e-4f), r);
    F p = set1(1.9875691500e-4f);
    p = fma(p, r, set1(1.3981999507e-3f));
    p = fma(p, r, set1(8.3334519073e-3f));
    p = fma(p, r, set1(4.1665795894e-2f));
    p = fma(p, r, set1(1.6666665459e-1f));
    p = fma(p, r, set1(5.0000001201e-1f));
    p = fma(p, mul(r, r), add(r, set1(1.0f)));
    return times_power_of_two(p, n);
}
