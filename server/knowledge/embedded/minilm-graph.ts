/** The network of all-MiniLM-L6-v2, written as ONNX from its weights: six layers of BERT, the mean of the tokens, length 1. */
import { createOnnxGraph, type OnnxGraph } from './onnx-file.ts';
import { quantizeRows } from './quantize.ts';
import { readWeights, type Weights } from './safetensors.ts';

const width = 384;
const heads = 12;
const headWidth = width / heads;
const innerWidth = 1536;
const layers = 6;
const vocabulary = 30_522;

/** The longest text that the model was trained to read, its two marks included. */
export const mostTokens = 256;

/**
 * Not all of a byte: processors without instructions for it add two products in 16 bits, which 127 would overflow. So a
 * text becomes the same vector wherever it is read.
 */
const productSteps = 63;

/** What a layer multiplies with, as one matrix: rows are outputs. */
interface Linear {
  readonly weight: Float32Array;
  readonly bias: Float32Array;
  readonly inputs: number;
}

/** The file for one text: without others beside it no padding changes what it becomes. */
export function minilmGraph(safetensors: Buffer): Buffer {
  const weights = readWeights(safetensors);
  const graph = createOnnxGraph(17);
  let state = embeddings(graph, weights);
  for (let layer = 0; layer < layers; layer += 1) {
    const name = `encoder.layer.${layer}`;
    const attended = attention(graph, weights, state, `${name}.attention.self`);
    const mixed = linear(graph, attended, read(weights, `${name}.attention.output.dense`, width, width));
    state = addAndNormalize(graph, weights, [state, mixed], `${name}.attention.output.LayerNorm`);
    const inner = linear(graph, state, read(weights, `${name}.intermediate.dense`, innerWidth, width));
    const outer = read(weights, `${name}.output.dense`, width, innerWidth);
    const fed = linear(graph, gelu(graph, inner), outer);
    state = addAndNormalize(graph, weights, [state, fed], `${name}.output.LayerNorm`);
  }
  const mean = graph.node('ReduceMean', [state], { axes: [0], keepdims: 0 });
  const length = graph.node('ReduceL2', [mean], { axes: [0], keepdims: 1 });
  return graph.file('tokens', graph.node('Div', [mean, length]), width);
}

function embeddings(graph: OnnxGraph, weights: Weights): string {
  const words = weights.floats('embeddings.word_embeddings.weight', vocabulary * width);
  const table = quantizeRows(words, width, 127);
  const rows = graph.node('Gather', [graph.tensor('int8', [vocabulary, width], table.values), 'tokens']);
  const scales = graph.node('Gather', [graph.tensor('float', [vocabulary, 1], table.scales), 'tokens']);
  const read = graph.node('Mul', [graph.node('Cast', [rows], { to: 1 }), scales]);
  const positions = weights.floats('embeddings.position_embeddings.weight', 512 * width);
  // There is one kind of text only, so that its mark is part of each place.
  const kind = weights.floats('embeddings.token_type_embeddings.weight', 2 * width);
  const places = positions
    .slice(0, mostTokens * width)
    .map((value, index) => value + at(kind, index % width));
  const ends = [whole(graph, [0]), graph.node('Shape', ['tokens']), whole(graph, [0])];
  const used = graph.node('Slice', [graph.tensor('float', [mostTokens, width], places), ...ends]);
  return addAndNormalize(graph, weights, [read, used], 'embeddings.LayerNorm');
}

function attention(graph: OnnxGraph, weights: Weights, state: string, name: string): string {
  const [query, key, value] = ['query', 'key', 'value'].map((part) =>
    read(weights, `${name}.${part}`, width, width),
  ) as [Linear, Linear, Linear];
  // The usual division by the root of the width of a head: a row has a scale of its own, so that nothing is lost here.
  const scaled = scale(query, 1 / Math.sqrt(headWidth));
  const joined = linear(graph, state, stack([scaled, key, value]));
  const parts = graph.nodes('Split', [joined], 3, { axis: 1 });
  const byHead = (part: string, order: readonly number[]) =>
    graph.node('Transpose', [graph.node('Reshape', [part, whole(graph, [-1, heads, headWidth])])], {
      perm: order,
    });
  const queries = byHead(parts[0] ?? '', [1, 0, 2]);
  const keys = byHead(parts[1] ?? '', [1, 2, 0]);
  const values = byHead(parts[2] ?? '', [1, 0, 2]);
  const shares = graph.node('Softmax', [graph.node('MatMul', [queries, keys])], { axis: -1 });
  const heard = graph.node('Transpose', [graph.node('MatMul', [shares, values])], { perm: [1, 0, 2] });
  return graph.node('Reshape', [heard, whole(graph, [-1, width])]);
}

/** A product of whole numbers: each output has a scale of its own, the input one for all of the text. */
function linear(graph: OnnxGraph, input: string, { weight, bias, inputs }: Linear): string {
  const outputs = bias.length;
  const { values, scales } = quantizeRows(weight, inputs, productSteps);
  const transposed = new Int8Array(values.length);
  for (let row = 0; row < outputs; row += 1)
    for (let column = 0; column < inputs; column += 1)
      transposed[column * outputs + row] = values[row * inputs + column] ?? 0;
  const [bytes = '', inputScale = '', zero = ''] = graph.nodes('DynamicQuantizeLinear', [input], 3);
  const matrix = graph.tensor('int8', [inputs, outputs], transposed);
  const product = graph.node('Cast', [graph.node('MatMulInteger', [bytes, matrix, zero])], { to: 1 });
  const outputScale = graph.node('Mul', [inputScale, floats(graph, scales)]);
  return graph.node('Add', [graph.node('Mul', [product, outputScale]), floats(graph, bias)]);
}

function addAndNormalize(graph: OnnxGraph, weights: Weights, parts: readonly string[], name: string): string {
  const [weight, bias] = ['weight', 'bias'].map((part) =>
    floats(graph, weights.floats(`${name}.${part}`, width)),
  );
  const inputs = [graph.node('Add', parts), weight ?? '', bias ?? ''];
  return graph.node('LayerNormalization', inputs, { axis: -1, epsilon: 1e-12 });
}

function gelu(graph: OnnxGraph, input: string): string {
  const bent = graph.node('Erf', [graph.node('Div', [input, floats(graph, [Math.SQRT2])])]);
  const part = graph.node('Mul', [input, graph.node('Add', [bent, floats(graph, [1])])]);
  return graph.node('Mul', [part, floats(graph, [0.5])]);
}

function read(weights: Weights, name: string, outputs: number, inputs: number): Linear {
  const weight = weights.floats(`${name}.weight`, outputs * inputs);
  return { weight, bias: weights.floats(`${name}.bias`, outputs), inputs };
}

function scale({ weight, bias, inputs }: Linear, by: number): Linear {
  return { weight: weight.map((value) => value * by), bias: bias.map((value) => value * by), inputs };
}

function stack(parts: readonly [Linear, ...Linear[]]): Linear {
  const joined = (key: 'weight' | 'bias') => {
    const size = parts[0][key].length;
    const all = new Float32Array(size * parts.length);
    for (const [index, part] of parts.entries()) all.set(part[key], index * size);
    return all;
  };
  return { weight: joined('weight'), bias: joined('bias'), inputs: parts[0].inputs };
}

function floats(graph: OnnxGraph, values: ArrayLike<number>): string {
  return graph.tensor('float', [values.length], Float32Array.from(values));
}

function whole(graph: OnnxGraph, values: readonly number[]): string {
  return graph.tensor('int64', [values.length], BigInt64Array.from(values, BigInt));
}

function at(values: Float32Array, index: number): number {
  return values[index] ?? 0;
}
