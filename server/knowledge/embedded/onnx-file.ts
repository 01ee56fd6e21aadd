/** Writes a network down as an ONNX file: the few messages of its format that one model needs, and their bytes. */

/** The element types of ONNX that are used here. */
const types = { float: 1, int8: 3, int64: 7 } as const;

type TensorType = keyof typeof types;

/** A number of a node that is no tensor. */
export type Attributes = Readonly<Record<string, number | readonly number[]>>;

/** A network that grows node by node; the name of a value is what the next node takes. */
export interface OnnxGraph {
  /** A value that the file holds. */
  tensor(type: TensorType, shape: readonly number[], values: ArrayBufferView): string;
  /** The name of the first output of a node, or of all where it has several. */
  node(operator: string, inputs: readonly string[], attributes?: Attributes): string;
  nodes(operator: string, inputs: readonly string[], outputs: number, attributes?: Attributes): string[];
  /** The file, whose input is a row of whole numbers and whose output is a row of floats. */
  file(input: string, output: string, outputSize: number): Buffer;
}

export function createOnnxGraph(opset: number): OnnxGraph {
  const written: Buffer[] = [];
  let values = 0;
  const nextName = () => {
    values += 1;
    return `v${values}`;
  };
  const nodes: OnnxGraph['nodes'] = (operator, inputs, outputs, attributes = {}) => {
    const names = Array.from({ length: outputs }, nextName);
    const attributed = Object.entries(attributes).map(([name, value]) => bytes(5, attribute(name, value)));
    const ends = [...inputs.map((name) => text(1, name)), ...names.map((name) => text(2, name))];
    written.push(bytes(1, Buffer.concat([...ends, text(4, operator), ...attributed])));
    return names;
  };
  return {
    tensor(type, shape, content) {
      const name = nextName();
      const raw = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
      const dimensions = shape.map((size) => whole(1, size));
      const parts = [...dimensions, whole(2, types[type]), text(8, name), bytes(9, raw)];
      written.push(bytes(5, Buffer.concat(parts)));
      return name;
    },
    nodes,
    node: (operator, inputs, attributes) => nodes(operator, inputs, 1, attributes)[0] ?? '',
    file(input, output, outputSize) {
      const ends = [
        bytes(11, valueInfo(input, 'int64', text(2, 'tokens'))),
        bytes(12, valueInfo(output, 'float', whole(1, outputSize))),
      ];
      const graph = Buffer.concat([...written, text(2, 'graph'), ...ends]);
      return Buffer.concat([whole(1, 8), bytes(7, graph), bytes(8, whole(2, opset))]);
    },
  };
}

function valueInfo(name: string, type: TensorType, dimension: Buffer): Buffer {
  const shape = bytes(2, bytes(1, dimension));
  return Buffer.concat([text(1, name), bytes(2, bytes(1, Buffer.concat([whole(1, types[type]), shape])))]);
}

function attribute(name: string, value: number | readonly number[]): Buffer {
  if (typeof value !== 'number')
    return Buffer.concat([text(1, name), ...value.map((one) => whole(8, one)), whole(20, 7)]);
  if (Number.isInteger(value)) return Buffer.concat([text(1, name), whole(3, value), whole(20, 2)]);
  const float = Buffer.alloc(5);
  float[0] = (2 << 3) | 5;
  float.writeFloatLE(value, 1);
  return Buffer.concat([text(1, name), float, whole(20, 1)]);
}

function bytes(field: number, content: Buffer): Buffer {
  return Buffer.concat([varint((field << 3) | 2), varint(content.length), content]);
}

function text(field: number, content: string): Buffer {
  return bytes(field, Buffer.from(content));
}

function whole(field: number, value: number): Buffer {
  return Buffer.concat([varint(field << 3), varint(value)]);
}

/** Negative numbers are written as 64 bits without a sign, as the format has it. */
function varint(value: number): Buffer {
  const digits: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  for (; rest > 127n; rest >>= 7n) digits.push(Number(rest & 127n) | 128);
  return Buffer.from([...digits, Number(rest)]);
}
