import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// The daemon behind the development server; `npm run mock` uses the same port.
const target = process.env.WEIR_URL ?? 'http://127.0.0.1:8470';
// The daemon accepts only its own host name (against DNS rebinding).
const api = { target, changeOrigin: true, headers: { origin: target } };

export default defineConfig({
  plugins: [svelte()],
  build: {
    target: 'es2022',
    // Separate files instead of data: URLs, as the content security policy requires.
    assetsInlineLimit: 0,
    // All target browsers support modulepreload, so that the polyfill is not needed.
    modulePreload: { polyfill: false },
  },
  server: { proxy: { '/api': api, '/metrics': api, '/healthz': api } },
});
