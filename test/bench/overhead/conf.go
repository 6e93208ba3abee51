package main

const nginxConf = `daemon off;
worker_processes 1;
{{if .Root}}user root;{{end}}
pid {{.Dir}}/nginx.pid;
error_log stderr error;
events { worker_connections {{.Connections}}; }
http {
  access_log off;
  client_body_temp_path {{.Dir}}/body;
  proxy_temp_path {{.Dir}}/proxy;
  fastcgi_temp_path {{.Dir}}/fastcgi;
  uwsgi_temp_path {{.Dir}}/uwsgi;
  scgi_temp_path {{.Dir}}/scgi;
  keepalive_requests 100000000;
  upstream nodes {
    {{range .Nodes}}server {{.}};
    {{end}}
    keepalive 256;
    keepalive_requests 100000000;
  }
  server {
    listen {{.Listen}};
    location / {
      proxy_pass http://nodes;
      proxy_http_version 1.1;
      client_max_body_size 0;
      proxy_set_header Connection "";
      proxy_buffers 16 8k;
    }
  }
}
`

const haproxyConf = `global
  nbthread 1
  maxconn {{.Connections}}
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
frontend searches
  bind {{.Listen}}
  default_backend nodes
backend nodes
  balance roundrobin
{{range $i, $node := .Nodes}}  server n{{$i}} {{$node}}
{{end}}`
