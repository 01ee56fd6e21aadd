/** Writes the TypeScript types of every schema and operation, for the server and for the client. */
import { join } from 'node:path';
import openapiTS, { astToString, type OpenAPITSOptions } from 'openapi-typescript';
import { type Contract, type ContractResponse, operationsOf, resolve } from './contract.ts';
import { header, writeIfChanged } from './output.ts';

/** Writes server/contract/api.ts and clients/typescript/generated/api.ts. */
export async function generateApiTypes(root: string, contract: Contract): Promise<void> {
  const shared: OpenAPITSOptions = { rootTypes: true, rootTypesNoSchemaPrefix: true, silent: true };
  // The server sees requests after defaults were filled in; a caller need not send what has a default.
  const server = await typesOf(asTheServerSees(contract), {
    ...shared,
    enumValues: true,
    defaultNonNullable: true,
  });
  const client = await typesOf(contract, { ...shared, defaultNonNullable: false });
  await writeIfChanged(join(root, 'server/contract/api.ts'), header('openapi') + server);
  await writeIfChanged(join(root, 'clients/typescript/generated/api.ts'), header('openapi') + client);
}

async function typesOf(contract: Contract, options: OpenAPITSOptions): Promise<string> {
  // openapi-typescript changes the document it is given.
  const copy = structuredClone(contract) as unknown as Parameters<typeof openapiTS>[0];
  return astToString(await openapiTS(copy, options));
}

/**
 * What the generator cannot say by itself: after validation a parameter with a default is always there, and only a
 * header that is required has to be given by the handler.
 */
function asTheServerSees(contract: Contract): Contract {
  const copy = structuredClone(contract);
  for (const { operation } of operationsOf(copy)) {
    for (const parameter of (operation.parameters ?? []).map((value) => resolve(copy, value)))
      if (parameter.schema.default !== undefined) parameter.required = true;
    for (const response of Object.values(operation.responses).map((value) => resolve(copy, value)))
      dropOptionalHeaders(copy, response);
  }
  return copy;
}

function dropOptionalHeaders(contract: Contract, response: ContractResponse): void {
  for (const [name, header] of Object.entries(response.headers ?? {}))
    if (!resolve(contract, header).required) delete response.headers?.[name];
}
