/** Writes the defaults of the settings file, so that no code repeats a number that the schema says. */
import { join } from 'node:path';
import { header, writeIfChanged } from './output.ts';
import { placesOf, readSettingsSchema } from './schema-places.ts';

/** Writes server/contract/setting-defaults.ts: apart from the validator, which costs time to load. */
export async function generateSettingDefaults(root: string): Promise<void> {
  const places = placesOf(await readSettingsSchema(root));
  const defaults = places.flatMap(({ path, schema }) =>
    'default' in schema ? [[path, schema.default]] : [],
  );
  const text = `${header('schemas')}
/** What counts where nobody has written it, by the path of the key; \`*\` stands for any name, \`[]\` for an item. */
export const settingDefaults = ${JSON.stringify(Object.fromEntries(defaults), null, 2)} as const;
`;
  await writeIfChanged(join(root, 'server/contract/setting-defaults.ts'), text);
}
