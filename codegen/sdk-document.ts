/** The contract as generators of clients can process it, and as the clients that they make live on with later servers. */
import { type Contract, type Operation, operationsOf, type Schema } from './contract.ts';

/** Writes into the contract: messages hold blocks alone, files are binary, and objects may grow. */
export function forGenerators(contract: Contract): Contract {
  const copy = structuredClone(contract);
  holdBlocksOnly(copy);
  for (const schema of schemasIn(copy)) {
    sayBinary(schema);
    sayLong(schema);
    saySimply(schema);
    letGrow(schema);
  }
  return copy;
}

/** Generators for Java and others cannot express "a string, or a list of blocks"; the list can say all. */
function holdBlocksOnly(contract: Contract): void {
  narrow(contract, 'MessageParam', 'content');
  narrow(contract, 'CreateMessageRequest', 'system');
  narrow(contract, 'CountMessageTokensRequest', 'system');
  for (const { operation } of operationsOf(contract)) {
    if (takesMessages.has(operation.operationId)) lengthenExamples(operation);
  }
}

const takesMessages: ReadonlySet<string> = new Set(['createMessage', 'countMessageTokens']);

/** What the examples say as a string, they say as a block. */
function lengthenExamples(operation: Operation): void {
  const examples = Object.values(operation.requestBody?.content['application/json']?.examples ?? {});
  for (const { value } of examples) {
    const request = value as { system?: unknown; messages: { content: unknown }[] }; // the linter vouches for it
    for (const message of request.messages) message.content = asBlocks(message.content);
    if (request.system !== undefined) request.system = asBlocks(request.system);
  }
}

function asBlocks(content: unknown): unknown {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : content;
}

function narrow(contract: Contract, schema: string, property: string): void {
  const properties = contract.components.schemas[schema]?.properties;
  const blocks = properties?.[property]?.oneOf?.find((branch) => branch.type === 'array');
  if (!properties || !blocks) throw new Error(`${schema}.${property} is no longer a string or a list`);
  properties[property] = blocks;
}

/** Several generators know bytes only as OpenAPI 3.0 has them, and make text of everything else. */
function sayBinary(schema: Schema): void {
  if (schema.contentMediaType !== 'application/octet-stream') return;
  delete schema.contentMediaType;
  schema.format = 'binary';
}

/** Without a format an integer has 32 bits in Go and Java, and the size of a file may have more. */
function sayLong(schema: Schema): void {
  const { type, format, maximum = Number.POSITIVE_INFINITY } = schema;
  if ([type].flat().includes('integer') && format === undefined && Number(maximum) > 2 ** 31 - 1)
    schema.format = 'int64';
}

/**
 * What the generator for Java makes of these defaults and constants does not compile, and the clients for Python hold the
 * pattern of a time against their own spelling of it. The server fills defaults in by itself, and judges what is sent.
 */
function saySimply(schema: Schema): void {
  if (schema.format === 'date-time') delete schema.pattern;
  if (schema.$ref !== undefined || Array.isArray(schema.default)) delete schema.default;
  if (schema.type === 'boolean') delete schema.const;
}

/**
 * The clients for Go and Java refuse an answer with a member that a closed object does not list, which each version of the
 * server may add. Said aloud, since some of them take silence for closed. What is sent the server judges by the contract.
 */
function letGrow(schema: Schema): void {
  if (schema.additionalProperties === false || (schema.properties && !('additionalProperties' in schema)))
    schema.additionalProperties = true;
}

/** Under these the names are the author's own, `default` among the responses for instance. */
const holdNamed = new Set(
  'paths content responses headers parameters schemas properties patternProperties'.split(' '),
);
/** Under these stands data, which may look like a schema: tools have some in their examples. */
const holdData = new Set('example examples x-example-events default const enum'.split(' '));

/** Every schema of the document wherever it stands, among the nodes that hold them. */
function* schemasIn(node: unknown, named = false): Generator<Schema> {
  if (node === null || typeof node !== 'object') return;
  if (!named && !Array.isArray(node)) yield node as Schema; // a node of another kind has none of a schema's keywords
  for (const [key, value] of Object.entries(node))
    if (named || !holdData.has(key))
      yield* schemasIn(value, !named && !Array.isArray(value) && holdNamed.has(key));
}
