/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sanitizer this is built with: MOAT_ASAN and MOAT_TSAN are 1 or 0, so that `if` serves.
 */
#ifndef MOAT_BASE_SANITIZER_H
#define MOAT_BASE_SANITIZER_H

#if defined(__SANITIZE_ADDRESS__)
#define MOAT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOAT_ASAN 1
#endif
#endif
#ifndef MOAT_ASAN
#define MOAT_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__)
#define MOAT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MOAT_TSAN 1
#endif
#endif
#ifndef MOAT_TSAN
#define MOAT_TSAN 0
#endif

#endif
