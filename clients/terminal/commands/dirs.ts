/** `service dirs`. */
import { join } from 'node:path';
import { compiledCodeFolder } from '../compiled-code.ts';
import { logFileIn } from '../log/log-file.ts';
import { printJson, printTable } from '../output.ts';
import { currentSettings } from '../places.ts';

/** Prints every folder and file that the command uses here, whether it is there yet or not. */
export async function printDirectories({ json = false }: { readonly json?: boolean }): Promise<void> {
  const { dataDirectory, localDataFolder } = await import('../../../server/config/config.ts');
  const loaded = await currentSettings();
  const { places } = loaded;
  const data = await localDataFolder(loaded);
  const directories = {
    working_directory: places.workingDirectory,
    project_root: places.projectRoot,
    global_file: places.globalFile,
    workspace_file: places.workspaceFile,
    data_directory: dataDirectory(loaded),
    database: join(data, 'service.db'),
    log_file: logFileIn(data),
    trust_file: join(places.dataHome, 'trust.json'),
    master_key: join(places.dataHome, 'master.key'),
    compiled_code: compiledCodeFolder(),
  };
  if (json) return printJson(directories);
  const rows = Object.entries(directories).map(([name, path]) => ({ name: name.replaceAll('_', ' '), path }));
  printTable(rows, [
    { title: 'what', value: ({ name }) => name },
    // In full, unlike elsewhere: paths are asked for to be used.
    { title: 'path', value: ({ path }) => path ?? '' },
  ]);
}
