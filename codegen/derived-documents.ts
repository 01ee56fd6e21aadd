/** Writes the contract in the forms that the mock and the client generators digest. */
import { join } from 'node:path';
import { type Contract, type MediaType, operationsOf, resolve } from './contract.ts';
import { writeIfChanged } from './output.ts';
import { forGenerators } from './sdk-document.ts';

/** Writes server/contract/openapi.mock.json and openapi.sdk.json. */
export async function generateDerivedDocuments(root: string, contract: Contract): Promise<void> {
  const text = withStreamsAsText(contract);
  const folder = join(root, 'server/contract');
  await writeIfChanged(
    join(folder, 'openapi.mock.json'),
    `${JSON.stringify(withJsonPartsAsText(withWrongRequestsAs400(text)), null, 1)}\n`,
  );
  await writeIfChanged(join(folder, 'openapi.sdk.json'), `${JSON.stringify(forGenerators(text), null, 1)}\n`);
}

/** The mock answers a wrong request with 422 wherever that is declared; ours means something else, and 400 is what it gets. */
function withWrongRequestsAs400(contract: Contract): Contract {
  const copy = structuredClone(contract);
  for (const { operation } of operationsOf(copy))
    if (operation.responses['400']) delete operation.responses['422'];
  return copy;
}

/** The mock reads each part of a form as text, also where it holds JSON, and would refuse every object in one. */
function withJsonPartsAsText(contract: Contract): Contract {
  const copy = structuredClone(contract);
  for (const { operation } of operationsOf(copy)) {
    const form = operation.requestBody?.content['multipart/form-data'];
    if (form?.encoding) form.schema = structuredClone(resolve(copy, form.schema));
    for (const [part, { contentType }] of Object.entries(form?.encoding ?? {}))
      if (form && contentType === 'application/json') writePartAsText(form, part);
  }
  return copy;
}

function writePartAsText({ schema, examples = {} }: MediaType, part: string): void {
  if (!schema.properties?.[part]) throw new Error(`A form has no part ${part}, whose encoding is given`);
  schema.properties[part] = { type: 'string', contentMediaType: 'application/json' };
  for (const { value } of Object.values(examples)) {
    const parts = value as Record<string, unknown>; // the linter vouches for it
    if (part in parts) parts[part] = JSON.stringify(parts[part]);
  }
}

/** The mock and the generators know a stream only as text; its example is the events as they stand on the wire. */
function withStreamsAsText(contract: Contract): Contract {
  const copy = structuredClone(contract);
  for (const { operation } of operationsOf(copy)) {
    for (const response of Object.values(operation.responses)) {
      const stream = resolve(copy, response).content?.['text/event-stream'];
      if (stream) describeAsText(operation.operationId, stream);
    }
  }
  return copy;
}

function describeAsText(operationId: string, stream: MediaType): void {
  const events = stream['x-example-events'];
  if (!events) throw new Error(`${operationId} streams and has no x-example-events`);
  stream.schema = { type: 'string' };
  stream.examples = { stream: { value: events.map(frame).join('') } };
}

function frame({ event, id, data }: { event?: string; id?: string; data: unknown }): string {
  return `${id ? `id: ${id}\n` : ''}${event ? `event: ${event}\n` : ''}data: ${JSON.stringify(data)}\n\n`;
}
