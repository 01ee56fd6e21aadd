// Starts the server: compiled where it can be, which is quicker.
import { programOf } from './compiled-program.mjs';

const { run } = await import(programOf('server', import.meta.resolve('./main.ts')));
await run(process.argv.slice(2));
