/** How long tests give open streams to end whose credential has lost its right. */

/** Five seconds are promised; the rest is for machines that are busy with other tests. */
export const revokedWithinMs = 20_000;
