/** Contract in, code out: writes everything that follows from openapi/ and schemas/. Run by `make generate`. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { generateApiTypes } from './api-types.ts';
import { bundleContract } from './bundle.ts';
import { generateCatalogValidator } from './catalog-validator.ts';
import { generateConfigTypes } from './config-types.ts';
import { generateDerivedDocuments } from './derived-documents.ts';
import { requireKnownExtensions } from './extensions.ts';
import { generateHeaders } from './headers.ts';
import { generateRoutes } from './routes.ts';
import { generateSettingDefaults } from './setting-defaults.ts';
import { generateSettingsTable } from './settings-table.ts';
import { generateSettingsValidator } from './settings-validator.ts';

const root = join(import.meta.dirname, '..');
await mkdir(join(root, 'server/contract'), { recursive: true });
await mkdir(join(root, 'clients/typescript/generated'), { recursive: true });
const contract = await bundleContract(root);
requireKnownExtensions(contract);
await Promise.all([
  generateApiTypes(root, contract),
  generateRoutes(root, contract),
  generateHeaders(root, contract),
  generateDerivedDocuments(root, contract),
  generateConfigTypes(root),
  generateSettingDefaults(root),
  generateSettingsTable(root),
  generateSettingsValidator(root),
  generateCatalogValidator(root),
]);
