/** Writes the TypeScript types of every schema and operation, for the server and for the client. */
import { join } from 'node:path';
import openapiTS, { astToString, type OpenAPITSOptions } from 'openapi-typescript';
import type { Contract } from './contract.ts';
import { header, writeIfChanged } from './output.ts';

/** Writes server/contract/api.ts and clients/typescript/generated/api.ts. */
export async function generateApiTypes(root: string, contract: Contract): Promise<void> {
  const shared: OpenAPITSOptions = { rootTypes: true, rootTypesNoSchemaPrefix: true, silent: true };
  // The server sees requests after defaults were filled in; a caller need not send what has a default.
  const server = await typesOf(contract, { ...shared, enumValues: true, defaultNonNullable: true });
  const client = await typesOf(contract, { ...shared, defaultNonNullable: false });
  await writeIfChanged(join(root, 'server/contract/api.ts'), header('openapi') + server);
  await writeIfChanged(join(root, 'clients/typescript/generated/api.ts'), header('openapi') + client);
}

async function typesOf(contract: Contract, options: OpenAPITSOptions): Promise<string> {
  // openapi-typescript changes the document it is given.
  const copy = structuredClone(contract) as unknown as Parameters<typeof openapiTS>[0];
  return astToString(await openapiTS(copy, options));
}
