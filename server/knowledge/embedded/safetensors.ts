/** Reads the weights of a model: a header of JSON, and behind it the numbers one after the other. */

export interface Weights {
  /** The numbers of one tensor. Throws where there is none of that name and size. */
  floats(name: string, size: number): Float32Array;
}

interface Place {
  readonly dtype: string;
  readonly data_offsets: readonly [number, number];
}

export function readWeights(file: Buffer): Weights {
  const headerBytes = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString('utf8', 8, 8 + headerBytes)) as Record<string, Place>;
  return {
    floats(name, size) {
      const { dtype, data_offsets: [from, to] = [0, 0] } = header[name] ?? { dtype: 'none' };
      if (dtype !== 'F32' || to - from !== size * 4)
        throw new Error(`the weights hold no tensor ${name} of ${size} floats`);
      const start = 8 + headerBytes + from;
      // A copy: floats want their place in memory divisible by four.
      return new Float32Array(new Uint8Array(file.subarray(start, start + size * 4)).buffer);
    },
  };
}
