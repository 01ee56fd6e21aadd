/** Floats as bytes, each row with a scale of its own: one for all rows costs a fifth of what the vectors say. */

export interface QuantizedRows {
  readonly values: Int8Array;
  /** What a step of each row is worth. */
  readonly scales: Float32Array;
}

/** Rows of so many columns; the largest number of each becomes `steps`. */
export function quantizeRows(values: Float32Array, columns: number, steps: number): QuantizedRows {
  const rows = values.length / columns;
  const quantized = new Int8Array(values.length);
  const scales = new Float32Array(rows);
  for (let row = 0; row < rows; row += 1) {
    const from = row * columns;
    const own = values.subarray(from, from + columns);
    const largest = own.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const step = Math.fround(largest / steps) || 1;
    scales[row] = step;
    own.forEach((value, column) => {
      quantized[from + column] = Math.round(value / step);
    });
  }
  return { values: quantized, scales };
}
