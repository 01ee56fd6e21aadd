/**
 * Makes the programs out of their sources, each with what it imports in a few files: a start would else find and read
 * several hundred, which takes longer than all that it does then.
 */
import { dirname, join, relative } from 'node:path';
import { type OutputChunk, type Plugin, rolldown } from 'rolldown';

/** Their machine code lies beside them, where they look for it. */
const native = /^(sqlite3|@napi-rs\/keyring|@node-rs\/argon2)$/;
/** Drivers of databases that knex knows and this project has not. */
const absent = /^(better-sqlite3|mysql2?|mariadb|oracledb|tedious|pg-query-stream|pg-native)(\/|$)/;

/** Modules that the page of the settings passes on to the server alone. */
const settingsOfServers =
  /\/server\/config\/(files\/guidance-places|loopback|restricted-settings|catalogs|providers\/token)/;

/** In each file, as `placed` has it. */
const banner = `import { resolve as __resolve } from 'node:path';
import { pathToFileURL as __toUrl } from 'node:url';
const __placeOf = (place) => __resolve(import.meta.dirname, place);
const __urlOf = (file) => __toUrl(file).href;`;

/** What was written. */
export interface CompiledPrograms {
  readonly files: readonly OutputChunk[];
  /** The files of this project that went into it. */
  readonly sources: readonly string[];
}

/** @param dir - An absolute path; it has to stay where it is, since each file knows its sources from there. */
export async function compilePrograms(root: string, dir: string): Promise<CompiledPrograms> {
  const bundle = await rolldown({
    input: { server: join(root, 'server/main.ts'), service: join(root, 'clients/terminal/main.ts') },
    platform: 'node',
    external: (id) => native.test(id) || absent.test(id),
    // Its own choice for Node loads parts of itself by names that no tool can follow.
    resolve: { alias: { 'jsonc-parser': join(root, 'node_modules/jsonc-parser/lib/esm/main.js') } },
    plugins: [placed(dir)],
  });
  const { output } = await bundle.write({
    dir,
    banner,
    keepNames: true,
    entryFileNames: '[name].mjs',
    chunkFileNames: '[name]-[hash].mjs',
    // They would be put with the rest of the server, and whatever reads a setting would load all of that.
    codeSplitting: { groups: [{ name: 'settings', test: settingsOfServers }] },
  });
  const sources = await bundle.watchFiles;
  await bundle.close();
  return {
    files: output.filter((file) => file.type === 'chunk'),
    sources: sources.filter((file) => !file.includes('/node_modules/')),
  };
}

/** What a module says of where it is stays true, wherever its code is put. */
function placed(dir: string): Plugin {
  return {
    name: 'placed',
    transform(code, id) {
      if (!id.startsWith('/') || !/import\.meta\b|\b__(dir|file)name\b/.test(code)) return null;
      const at = JSON.stringify(relative(dir, dirname(id)));
      const file = JSON.stringify(relative(dir, id));
      const said = code
        .replaceAll(/import\.meta\.dirname\b|\b__dirname\b/g, `__placeOf(${at})`)
        .replaceAll(/import\.meta\.filename\b|\b__filename\b/g, `__placeOf(${file})`)
        .replaceAll(/import\.meta\.url\b/g, `__urlOf(__placeOf(${file}))`)
        .replaceAll(/import\.meta\.main\b/g, 'false');
      return { code: said };
    },
  };
}
