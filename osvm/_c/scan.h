/* Reading decimal numbers from bytes: exact, and fast for what data files hold.
 *
 * Eight bytes are looked at together: one subtraction and one mask find how
 * many of them are digits, three multiplications turn them into a number.  A
 * decimal mantissa m and exponent e become the nearest double in one of three
 * ways, all correctly rounded (to even):
 *   - m < 2^53 and |e| <= 22: one exact division or multiplication (Clinger,
 *     "How to read floating point numbers accurately", 1990);
 *   - up to 19 digits, -65 <= e <= 65: a 128-bit product (Lemire, "Number
 *     parsing at a gigabyte per second", 2021, algorithm 1);
 *   - anything else: SCAN_SLOW, and the caller converts the token by
 *     other means (its grammar has been checked).
 *
 * Grammar:  [+-] ( digits [. [digits]] | . digits ) [ (e|E) [+-] digits ]
 * No hexadecimal, no infinity, no NaN, no blanks, no locale.
 *
 * Invariant: at least OSVM_SCAN_PAD readable bytes follow the last byte of the
 * text, and the byte after the text is not part of a number.
 */
#ifndef OSVM_SCAN_H
#define OSVM_SCAN_H

#include <stdint.h>
#include <string.h>

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

#define OSVM_SCAN_PAD 32

enum {
    SCAN_OK = 0,
    SCAN_NOT_A_NUMBER = 1,
    SCAN_SLOW = 2,
};

static inline uint64_t scan_load8(const unsigned char *p)
{
    uint64_t x;
    memcpy(&x, p, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

static inline int scan_ctz(uint64_t x)
{
#if defined(_MSC_VER) && !defined(__clang__)
    unsigned long n;
    _BitScanForward64(&n, x);
    return (int)n;
#else
    return __builtin_ctzll(x);
#endif
}

static inline int scan_clz(uint64_t x)
{
#if defined(_MSC_VER) && !defined(__clang__)
    unsigned long n;
    _BitScanReverse64(&n, x);
    return 63 - (int)n;
#else
    return __builtin_clzll(x);
#endif
}

static inline uint64_t scan_mul128(uint64_t a, uint64_t b, uint64_t *high)
{
#if defined(__SIZEOF_INT128__)
    unsigned __int128 product = (unsigned __int128)a * b;
    *high = (uint64_t)(product >> 64);
    return (uint64_t)product;
#elif defined(_MSC_VER) && defined(_M_X64)
    return _umul128(a, b, high);
#else
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t p00 = a0 * b0, p01 = a0 * b1, p10 = a1 * b0, p11 = a1 * b1;
    uint64_t middle = (p00 >> 32) + (uint32_t)p01 + (uint32_t)p10;
    *high = p11 + (p01 >> 32) + (p10 >> 32) + (middle >> 32);
    return (middle << 32) | (uint32_t)p00;
#endif
}

/* How many of the eight bytes, from the first, are digits. */
static inline int scan_count_digits(uint64_t x)
{
    uint64_t t = x ^ 0x3030303030303030ull;
    uint64_t mask = ((t + 0x7676767676767676ull) | t) & 0x8080808080808080ull;
    return mask ? scan_ctz(mask) >> 3 : 8;
}

/* The number written by the first n digits of the eight bytes, 1 <= n <= 8. */
static inline uint32_t scan_digits(uint64_t x, int n)
{
    uint64_t t = (x ^ 0x3030303030303030ull) << (64 - 8 * n);
    t = t * 10 + (t >> 8);
    t = ((t & 0x000000FF000000FFull) * 0x000F424000000064ull
         + ((t >> 16) & 0x000000FF000000FFull) * 0x0000271000000001ull) >> 32;
    return (uint32_t)t;
}

/* An unsigned integer below 10^18; the byte after it, or NULL when there is no
 * digit or the number is too large. */
static inline const unsigned char *scan_integer(const unsigned char *p, uint64_t *value)
{
    uint64_t x = scan_load8(p), v;
    int n = scan_count_digits(x), total;
    if (n == 0)
        return NULL;
    v = scan_digits(x, n);
    p += n;
    if (n < 8) {
        *value = v;
        return p;
    }
    for (total = 8; (unsigned char)(*p - '0') <= 9; p++) {
        if (v == 0)                 /* leading zeros do not count */
            total = 0;
        if (++total > 18)
            return NULL;
        v = v * 10 + (uint64_t)(*p - '0');
    }
    *value = v;
    return p;
}

static const uint64_t scan_power10[] = {
    1ull, 10ull, 100ull, 1000ull, 10000ull, 100000ull, 1000000ull, 10000000ull, 100000000ull,
};

static const double scan_exact_power10[] = {
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};

#define SCAN_MIN_POWER (-65)
#define SCAN_MAX_POWER 65

/* 5^q scaled to 128 bits with its top bit set, high and low half; rounded down
 * for q >= 0 and up for q < 0. */
static const uint64_t scan_power5[][2] = {
    {0x86ccbb52ea94baeaull, 0x98e947129fc2b4e9ull},
    {0xa87fea27a539e9a5ull, 0x3f2398d747b36224ull},
    {0xd29fe4b18e88640eull, 0x8eec7f0d19a03aadull},
    {0x83a3eeeef9153e89ull, 0x1953cf68300424acull},
    {0xa48ceaaab75a8e2bull, 0x5fa8c3423c052dd7ull},
    {0xcdb02555653131b6ull, 0x3792f412cb06794dull},
    {0x808e17555f3ebf11ull, 0xe2bbd88bbee40bd0ull},
    {0xa0b19d2ab70e6ed6ull, 0x5b6aceaeae9d0ec4ull},
    {0xc8de047564d20a8bull, 0xf245825a5a445275ull},
    {0xfb158592be068d2eull, 0xeed6e2f0f0d56712ull},
    {0x9ced737bb6c4183dull, 0x55464dd69685606bull},
    {0xc428d05aa4751e4cull, 0xaa97e14c3c26b886ull},
    {0xf53304714d9265dfull, 0xd53dd99f4b3066a8ull},
    {0x993fe2c6d07b7fabull, 0xe546a8038efe4029ull},
    {0xbf8fdb78849a5f96ull, 0xde98520472bdd033ull},
    {0xef73d256a5c0f77cull, 0x963e66858f6d4440ull},
    {0x95a8637627989aadull, 0xdde7001379a44aa8ull},
    {0xbb127c53b17ec159ull, 0x5560c018580d5d52ull},
    {0xe9d71b689dde71afull, 0xaab8f01e6e10b4a6ull},
    {0x9226712162ab070dull, 0xcab3961304ca70e8ull},
    {0xb6b00d69bb55c8d1ull, 0x3d607b97c5fd0d22ull},
    {0xe45c10c42a2b3b05ull, 0x8cb89a7db77c506aull},
    {0x8eb98a7a9a5b04e3ull, 0x77f3608e92adb242ull},
    {0xb267ed1940f1c61cull, 0x55f038b237591ed3ull},
    {0xdf01e85f912e37a3ull, 0x6b6c46dec52f6688ull},
    {0x8b61313bbabce2c6ull, 0x2323ac4b3b3da015ull},
    {0xae397d8aa96c1b77ull, 0xabec975e0a0d081aull},
    {0xd9c7dced53c72255ull, 0x96e7bd358c904a21ull},
    {0x881cea14545c7575ull, 0x7e50d64177da2e54ull},
    {0xaa242499697392d2ull, 0xdde50bd1d5d0b9e9ull},
    {0xd4ad2dbfc3d07787ull, 0x955e4ec64b44e864ull},
    {0x84ec3c97da624ab4ull, 0xbd5af13bef0b113eull},
    {0xa6274bbdd0fadd61ull, 0xecb1ad8aeacdd58eull},
    {0xcfb11ead453994baull, 0x67de18eda5814af2ull},
    {0x81ceb32c4b43fcf4ull, 0x80eacf948770ced7ull},
    {0xa2425ff75e14fc31ull, 0xa1258379a94d028dull},
    {0xcad2f7f5359a3b3eull, 0x096ee45813a04330ull},
    {0xfd87b5f28300ca0dull, 0x8bca9d6e188853fcull},
    {0x9e74d1b791e07e48ull, 0x775ea264cf55347eull},
    {0xc612062576589ddaull, 0x95364afe032a819eull},
    {0xf79687aed3eec551ull, 0x3a83ddbd83f52205ull},
    {0x9abe14cd44753b52ull, 0xc4926a9672793543ull},
    {0xc16d9a0095928a27ull, 0x75b7053c0f178294ull},
    {0xf1c90080baf72cb1ull, 0x5324c68b12dd6339ull},
    {0x971da05074da7beeull, 0xd3f6fc16ebca5e04ull},
    {0xbce5086492111aeaull, 0x88f4bb1ca6bcf585ull},
    {0xec1e4a7db69561a5ull, 0x2b31e9e3d06c32e6ull},
    {0x9392ee8e921d5d07ull, 0x3aff322e62439fd0ull},
    {0xb877aa3236a4b449ull, 0x09befeb9fad487c3ull},
    {0xe69594bec44de15bull, 0x4c2ebe687989a9b4ull},
    {0x901d7cf73ab0acd9ull, 0x0f9d37014bf60a11ull},
    {0xb424dc35095cd80full, 0x538484c19ef38c95ull},
    {0xe12e13424bb40e13ull, 0x2865a5f206b06fbaull},
    {0x8cbccc096f5088cbull, 0xf93f87b7442e45d4ull},
    {0xafebff0bcb24aafeull, 0xf78f69a51539d749ull},
    {0xdbe6fecebdedd5beull, 0xb573440e5a884d1cull},
    {0x89705f4136b4a597ull, 0x31680a88f8953031ull},
    {0xabcc77118461cefcull, 0xfdc20d2b36ba7c3eull},
    {0xd6bf94d5e57a42bcull, 0x3d32907604691b4dull},
    {0x8637bd05af6c69b5ull, 0xa63f9a49c2c1b110ull},
    {0xa7c5ac471b478423ull, 0x0fcf80dc33721d54ull},
    {0xd1b71758e219652bull, 0xd3c36113404ea4a9ull},
    {0x83126e978d4fdf3bull, 0x645a1cac083126eaull},
    {0xa3d70a3d70a3d70aull, 0x3d70a3d70a3d70a4ull},
    {0xccccccccccccccccull, 0xcccccccccccccccdull},
    {0x8000000000000000ull, 0x0000000000000000ull},
    {0xa000000000000000ull, 0x0000000000000000ull},
    {0xc800000000000000ull, 0x0000000000000000ull},
    {0xfa00000000000000ull, 0x0000000000000000ull},
    {0x9c40000000000000ull, 0x0000000000000000ull},
    {0xc350000000000000ull, 0x0000000000000000ull},
    {0xf424000000000000ull, 0x0000000000000000ull},
    {0x9896800000000000ull, 0x0000000000000000ull},
    {0xbebc200000000000ull, 0x0000000000000000ull},
    {0xee6b280000000000ull, 0x0000000000000000ull},
    {0x9502f90000000000ull, 0x0000000000000000ull},
    {0xba43b74000000000ull, 0x0000000000000000ull},
    {0xe8d4a51000000000ull, 0x0000000000000000ull},
    {0x9184e72a00000000ull, 0x0000000000000000ull},
    {0xb5e620f480000000ull, 0x0000000000000000ull},
    {0xe35fa931a0000000ull, 0x0000000000000000ull},
    {0x8e1bc9bf04000000ull, 0x0000000000000000ull},
    {0xb1a2bc2ec5000000ull, 0x0000000000000000ull},
    {0xde0b6b3a76400000ull, 0x0000000000000000ull},
    {0x8ac7230489e80000ull, 0x0000000000000000ull},
    {0xad78ebc5ac620000ull, 0x0000000000000000ull},
    {0xd8d726b7177a8000ull, 0x0000000000000000ull},
    {0x878678326eac9000ull, 0x0000000000000000ull},
    {0xa968163f0a57b400ull, 0x0000000000000000ull},
    {0xd3c21bcecceda100ull, 0x0000000000000000ull},
    {0x84595161401484a0ull, 0x0000000000000000ull},
    {0xa56fa5b99019a5c8ull, 0x0000000000000000ull},
    {0xcecb8f27f4200f3aull, 0x0000000000000000ull},
    {0x813f3978f8940984ull, 0x4000000000000000ull},
    {0xa18f07d736b90be5ull, 0x5000000000000000ull},
    {0xc9f2c9cd04674edeull, 0xa400000000000000ull},
    {0xfc6f7c4045812296ull, 0x4d00000000000000ull},
    {0x9dc5ada82b70b59dull, 0xf020000000000000ull},
    {0xc5371912364ce305ull, 0x6c28000000000000ull},
    {0xf684df56c3e01bc6ull, 0xc732000000000000ull},
    {0x9a130b963a6c115cull, 0x3c7f400000000000ull},
    {0xc097ce7bc90715b3ull, 0x4b9f100000000000ull},
    {0xf0bdc21abb48db20ull, 0x1e86d40000000000ull},
    {0x96769950b50d88f4ull, 0x1314448000000000ull},
    {0xbc143fa4e250eb31ull, 0x17d955a000000000ull},
    {0xeb194f8e1ae525fdull, 0x5dcfab0800000000ull},
    {0x92efd1b8d0cf37beull, 0x5aa1cae500000000ull},
    {0xb7abc627050305adull, 0xf14a3d9e40000000ull},
    {0xe596b7b0c643c719ull, 0x6d9ccd05d0000000ull},
    {0x8f7e32ce7bea5c6full, 0xe4820023a2000000ull},
    {0xb35dbf821ae4f38bull, 0xdda2802c8a800000ull},
    {0xe0352f62a19e306eull, 0xd50b2037ad200000ull},
    {0x8c213d9da502de45ull, 0x4526f422cc340000ull},
    {0xaf298d050e4395d6ull, 0x9670b12b7f410000ull},
    {0xdaf3f04651d47b4cull, 0x3c0cdd765f114000ull},
    {0x88d8762bf324cd0full, 0xa5880a69fb6ac800ull},
    {0xab0e93b6efee0053ull, 0x8eea0d047a457a00ull},
    {0xd5d238a4abe98068ull, 0x72a4904598d6d880ull},
    {0x85a36366eb71f041ull, 0x47a6da2b7f864750ull},
    {0xa70c3c40a64e6c51ull, 0x999090b65f67d924ull},
    {0xd0cf4b50cfe20765ull, 0xfff4b4e3f741cf6dull},
    {0x82818f1281ed449full, 0xbff8f10e7a8921a4ull},
    {0xa321f2d7226895c7ull, 0xaff72d52192b6a0dull},
    {0xcbea6f8ceb02bb39ull, 0x9bf4f8a69f764490ull},
    {0xfee50b7025c36a08ull, 0x02f236d04753d5b4ull},
    {0x9f4f2726179a2245ull, 0x01d762422c946590ull},
    {0xc722f0ef9d80aad6ull, 0x424d3ad2b7b97ef5ull},
    {0xf8ebad2b84e0d58bull, 0xd2e0898765a7deb2ull},
    {0x9b934c3b330c8577ull, 0x63cc55f49f88eb2full},
    {0xc2781f49ffcfa6d5ull, 0x3cbf6b71c76b25fbull},
    {0xf316271c7fc3908aull, 0x8bef464e3945ef7aull},
};

/* The double nearest to w * 10^q; 0 when it cannot be settled here. */
static inline int scan_nearest(uint64_t w, int q, double *value)
{
    uint64_t high, low, mantissa, bits;
    int zeros, upper, power;
    if (w == 0) {
        *value = 0.0;
        return 1;
    }
    if (q < SCAN_MIN_POWER || q > SCAN_MAX_POWER)
        return 0;
    zeros = scan_clz(w);
    w <<= zeros;
    low = scan_mul128(w, scan_power5[q - SCAN_MIN_POWER][0], &high);
    if ((high & 0x1FF) == 0x1FF) {
        uint64_t more;
        (void)scan_mul128(w, scan_power5[q - SCAN_MIN_POWER][1], &more);
        low += more;
        if (low < more)
            high++;
        if (low == UINT64_MAX && (q < -27 || q > 55))
            return 0;
    }
    upper = (int)(high >> 63);
    mantissa = high >> (upper + 9);                 /* 53 bits and one to round */
    power = (int)((((152170 + 65536) * (int64_t)q) >> 16) + 63) + upper - zeros + 1023;
    if (power <= 0 || power >= 2046)
        return 0;
    if (low <= 1 && q >= -4 && q <= 23 && (mantissa & 3) == 1
        && (mantissa << (upper + 9)) == high)       /* exactly half way: to even */
        mantissa &= ~(uint64_t)1;
    mantissa += mantissa & 1;
    mantissa >>= 1;
    if (mantissa >> 53) {
        mantissa = (uint64_t)1 << 52;
        power++;
    }
    bits = (mantissa & (((uint64_t)1 << 52) - 1)) | ((uint64_t)power << 52);
    memcpy(value, &bits, 8);
    return 1;
}

/* Any spelling of a number without its sign, digit by digit. */
static const unsigned char *scan_double_general(const unsigned char *p, double *value, int *status)
{
    uint64_t w = 0;
    int64_t exponent = 0, written = 0;
    int kept = 0, digits = 0, dropped = 0, negative;
    for (; (unsigned char)(*p - '0') <= 9; p++) {
        digits = 1;
        if (kept < 19) {
            w = w * 10 + (uint64_t)(*p - '0');
            kept += w != 0;
        } else {
            exponent++;
            dropped |= *p != '0';
        }
    }
    if (*p == '.') {
        for (p++; (unsigned char)(*p - '0') <= 9; p++) {
            digits = 1;
            if (kept < 19) {
                w = w * 10 + (uint64_t)(*p - '0');
                kept += w != 0;
                exponent--;
            } else {
                dropped |= *p != '0';
            }
        }
    }
    *status = SCAN_NOT_A_NUMBER;
    if (!digits)
        return p;
    if ((*p | 0x20) == 'e') {
        p++;
        negative = *p == '-';
        p += (*p == '-') | (*p == '+');
        if ((unsigned char)(*p - '0') > 9)
            return p;
        for (; (unsigned char)(*p - '0') <= 9; p++)
            if (written < 1000000000)
                written = written * 10 + (*p - '0');
        exponent += negative ? -written : written;
    }
    *status = SCAN_OK;
    if (w == 0) {
        *value = 0.0;
        return p;
    }
    if (exponent < SCAN_MIN_POWER || exponent > SCAN_MAX_POWER) {
        *status = SCAN_SLOW;
        return p;
    }
    if (!dropped && w <= ((uint64_t)1 << 53) && exponent >= -22 && exponent <= 22) {
        if (exponent < 0)
            *value = (double)w / scan_exact_power10[-exponent];
        else
            *value = (double)w * scan_exact_power10[exponent];
        return p;
    }
    if (!scan_nearest(w, (int)exponent, value))
        *status = SCAN_SLOW;
    else if (dropped) {             /* between w and w + 1: sure when both round alike */
        double above;
        if (!scan_nearest(w + 1, (int)exponent, &above) || above != *value)
            *status = SCAN_SLOW;
    }
    return p;
}

/* A number with its sign; the byte after it.  With SCAN_SLOW the token
 * is well formed and *value is not set; its sign is the caller's to read again. */
static inline const unsigned char *scan_double(const unsigned char *p, double *value, int *status)
{
    int negative = *p == '-', n1, n2, n3;
    const unsigned char *start;
    uint64_t x, w;
    double v = 0.0;
    p += negative | (*p == '+');
    start = p;
    x = scan_load8(p);
    n1 = scan_count_digits(x);
    if (n1 == 8 || n1 == 0)
        goto general;
    w = scan_digits(x, n1);
    p += n1;
    n2 = 0;
    if (*p == '.') {
        x = scan_load8(p + 1);
        n2 = scan_count_digits(x);
        if (n2 == 0)
            goto general;
        w = w * scan_power10[n2] + scan_digits(x, n2);
        p += 1 + n2;
        if (n2 == 8) {
            x = scan_load8(p);
            n3 = scan_count_digits(x);
            if (n3 == 8 || n1 + n3 > 11)
                goto general;
            if (n3) {
                w = w * scan_power10[n3] + scan_digits(x, n3);
                p += n3;
                n2 += n3;
            }
        }
    }
    if ((*p | 0x20) == 'e')
        goto general;
    *status = SCAN_OK;
    if (w <= ((uint64_t)1 << 53)) {
        v = (double)w / scan_exact_power10[n2];
    } else if (!scan_nearest(w, -n2, &v)) {
        *status = SCAN_SLOW;
        return p;
    }
    *value = negative ? -v : v;
    return p;
general:
    p = scan_double_general(start, &v, status);
    *value = negative ? -v : v;
    return p;
}

#endif
